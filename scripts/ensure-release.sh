#!/bin/sh
# Makes .make/release, a venv with what builds a release (requirements/release.txt). What is there already
# is kept, so a second run needs no network.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here"
venv=.make/release
lock=requirements/release.txt

if [ ! -f "$venv/.made" ] || [ "$(cat "$venv/.made")" != "$(cksum <"$lock")" ]; then
  echo "weir: making $venv, which builds releases"
  rm -rf "$venv"
  "$(sh scripts/find-python.sh)" -m venv "$venv"
  "$venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet \
    --require-hashes -r "$lock"
  cksum <"$lock" >"$venv/.made"
fi
