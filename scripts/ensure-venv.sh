#!/bin/sh
# Makes .make/NAME, a venv with what requirements/NAME.txt pins. What is there already is kept, so a
# second run needs no network.
#   scripts/ensure-venv.sh NAME "what it is for"
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here"
venv=.make/$1
lock=requirements/$1.txt

# Its commands carry the folder they were made in, and its Python may be gone.
fingerprint() {
  { echo "$here" && "$venv/bin/python" -c 'import sys; print(sys.version, sys.base_prefix)' &&
    cat "$lock"; } 2>/dev/null | cksum
}

if [ -f "$venv/.made" ] && [ "$(cat "$venv/.made")" = "$(fingerprint)" ] &&
  "$venv/bin/python" -c '' 2>/dev/null; then
  exit 0
fi
echo "weir: making $venv: $2"
rm -rf "$venv"
"$(sh scripts/find-python.sh)" -m venv "$venv"
"$venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet \
  --require-hashes -r "$lock"
made=$(fingerprint)
echo "$made" >"$venv/.made"
