#!/bin/sh
# Makes .make/NAME, a venv with what requirements/NAME.txt pins. What is there already is kept, so a
# second run needs no network.
#   scripts/ensure-venv.sh NAME "what it is for"
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here"
venv=.make/$1
lock=requirements/$1.txt

if [ -f "$venv/.made" ] && [ "$(cat "$venv/.made")" = "$(cksum <"$lock")" ]; then
  exit 0
fi
echo "weir: making $venv: $2"
rm -rf "$venv"
"$(sh scripts/find-python.sh)" -m venv "$venv"
"$venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet \
  --require-hashes -r "$lock"
cksum <"$lock" >"$venv/.made"
