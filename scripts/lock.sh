#!/bin/sh
# Pins requirements/*.in anew: one file for every Python from 3.10 and every platform, each
# download checked by its hash, no addresses. Uses uv from PATH, else from a venv of its own.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here"

if uv=$(command -v uv); then :; else
  uv=.make/uv/bin/uv
  if [ ! -x "$uv" ]; then
    base=$(sh scripts/find-python.sh)
    "$base" -m venv .make/uv
    .make/uv/bin/python -m pip install --quiet --disable-pip-version-check uv
  fi
fi

# Each of the first is bound to the versions of those before, so in this order; the spark-* are
# environments of their own.
for name in agent build image run dev docs release spark-3.5 spark-4.0 spark-4.1 spark-4.1.1 spark-4.2 spark-4.3 \
  spark-client; do 
  oldest=3.10
  [ "$name" = spark-4.3 ] && oldest=3.11
  # An existing pin is kept while it satisfies the .in file; UPGRADE=1 takes the newest.
  "$uv" pip compile --quiet --universal --python-version "$oldest" --generate-hashes --no-header \
    --no-emit-index-url --no-emit-find-links --no-annotate ${UPGRADE:+--upgrade} \
    "requirements/$name.in" -o "requirements/$name.txt"
  echo "requirements/$name.txt: $(grep -c '^[a-z0-9]' "requirements/$name.txt") pins"
done
