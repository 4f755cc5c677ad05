#!/bin/sh
# Prints the path of a Python that can build .venv: 3.10 or newer, with venv and ensurepip.
# A candidate must really run: a version manager's shim can be on PATH and still fail.
set -u

wanted='import sys; sys.exit(0 if sys.version_info >= (3, 10) else 3)'
complete='import ensurepip, venv'
seen=''

note() { seen="$seen
  - $1"; }

try() {
  found=$(command -v "$1" 2>/dev/null) || return 1
  if ! version=$("$found" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
  then
    note "$found does not run"
    return 1
  fi
  if ! "$found" -c "$wanted" 2>/dev/null; then
    note "$found is Python $version"
    return 1
  fi
  if ! "$found" -c "$complete" 2>/dev/null; then
    note "$found is Python $version, but its venv module is missing (Debian, Ubuntu: apt-get install python3-venv)"
    return 1
  fi
  "$found" -c 'import sys; print(sys.executable)'
}

if [ -n "${PYTHON:-}" ]; then
  try "$PYTHON" && exit 0
  [ -n "$seen" ] || note "$PYTHON is not there"
else
  for name in python3 python3.13 python3.12 python3.11 python3.10 python3.14 python; do
    try "$name" && exit 0
  done
fi

{
  echo "weir needs Python 3.10 or newer, with its venv module. Found:${seen:-
  - no python3 on PATH}"
  echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name one: make PYTHON=/path/to/python3.12"
} >&2
exit 2
