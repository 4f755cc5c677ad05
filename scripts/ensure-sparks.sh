#!/bin/sh
# Makes one venv a PySpark of the matrix in .make/spark-VERSION, from requirements/spark-VERSION.txt.
# What is there already is kept, so a second run needs no network. "client" is a Spark Connect client.
#   scripts/ensure-sparks.sh           all versions
#   scripts/ensure-sparks.sh 3.5 4.3   these
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here"
[ $# -gt 0 ] || set -- 3.5 4.0 4.1 4.1.1 4.2 4.3

for version in "$@"; do
  lock=requirements/spark-$version.txt
  [ -f "$lock" ] || { echo "weir: no $lock: there is no such version in the matrix" >&2; exit 2; }
  sh scripts/ensure-venv.sh "spark-$version" 'downloads some hundred MB'
done
