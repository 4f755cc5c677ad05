#!/bin/sh
# Makes .venv what requirements/ and the two pyproject files ask for; quick when it already is.
#   scripts/setup.sh run    what the commands and the demo need
#   scripts/setup.sh dev    that, and what the tests need
# A .venv that was moved, half made, or made by a Python that is gone is built anew.
set -eu

level=${1:-dev}
case $level in
  run | dev) ;;
  *) echo "usage: scripts/setup.sh run|dev" >&2; exit 2 ;;
esac

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here"
venv=$here/.venv
python=$venv/bin/python

# What this .venv was made from. Contents count, not times: a checkout changes times at will.
fingerprint() {
  { echo "$here"
    "$python" -c 'import sys; print(sys.version, sys.base_prefix)'
    ls -d ./*/__init__.py || : # a new package must be made known to the editable installation
    cat "requirements/$1.txt" pyproject.toml spark_listener/pyproject.toml scripts/setup.sh
  } 2>/dev/null | cksum
}

made() { # made LEVEL: was that level finished, and from what stands here now?
  [ -f "$venv/.weir-$1" ] && [ "$(cat "$venv/.weir-$1")" = "$(fingerprint "$1")" ]
}

sound() { # it runs, it is this folder's, and pip in it works
  [ -x "$python" ] || return 1
  prefix=$("$python" -c 'import sys; print(sys.prefix if sys.version_info >= (3, 10) else "")' 2>/dev/null) || return 1
  [ "$prefix" = "$venv" ] || return 1
  # The commands carry the folder they were made in; a moved .venv has another one.
  grep -qF -- "$venv/bin/" "$venv/bin/pip" 2>/dev/null || return 1
  "$python" -m pip --version >/dev/null 2>&1
}

if made dev || { [ "$level" = run ] && made run; }; then
  exit 0
fi

if ! sound; then
  base=$(sh scripts/find-python.sh)
  [ -e "$venv" ] && echo "weir: .venv is incomplete or was moved; building it anew"
  rm -rf "$venv"
  echo "weir: making .venv with $("$base" --version) ($base)"
  "$base" -m venv "$venv"
fi
rm -f "$venv/.weir-run" "$venv/.weir-dev"

pip() { "$python" -m pip --disable-pip-version-check --no-input "$@"; }

echo "weir: installing requirements/$level.txt (the first time it downloads PySpark, some hundred MB)"
pip install --quiet --require-hashes -r "requirements/$level.txt"
# The lock holds everything the two distributions need, so nothing else may be fetched here.
pip install --quiet --no-deps --no-build-isolation -e ./spark_listener -e .
pip check >/dev/null || { pip check >&2; exit 1; }

fingerprint "$level" >"$venv/.weir-$level"
echo "weir: .venv is ready"
