#!/bin/sh
# Lint, types and every test, quick things first. Every stage runs even when one before it failed,
# so that one run tells everything. The last line counts the tests: "N passed, N failed, …".
#   scripts/test.sh         all of it
#   scripts/test.sh lint    lint and types
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here" || exit 2
python=.venv/bin/python
reports=.make/reports
failed=''
began=$(date +%s)

stage() { # stage NAME COMMAND...
  name=$1
  shift
  printf '\n── %s\n' "$name"
  start=$(date +%s)
  "$@"
  status=$?
  seconds=$(($(date +%s) - start))
  if [ "$status" = 0 ]; then
    printf '   ok · %s · %s s\n' "$name" "$seconds"
  else
    printf '   FAILED · %s · %s s\n' "$name" "$seconds"
    failed="$failed, $name"
  fi
}

tests() { # tests REPORT MARK: 5 is pytest's "no test of that kind"
  # The "ci" profile draws the same examples each time and sets no deadline: a busy machine is no fault.
  "$python" -m pytest -m "$2" --hypothesis-profile=ci --junitxml="$reports/$1.xml" --durations=5 --durations-min=10
  status=$?
  [ "$status" = 5 ] && return 0
  return "$status"
}

if [ "${1:-}" != lint ]; then
  sh scripts/ensure-tools.sh || exit 2
  sh scripts/check-java.sh --quiet || exit 2
fi
sh scripts/setup.sh dev || exit 2
[ "${1:-}" = lint ] || sh scripts/ensure-kafka.sh || exit 2
[ "${1:-}" = lint ] || sh scripts/ensure-helm.sh || exit 2
rm -rf "$reports"
mkdir -p "$reports"

stage "lint" "$python" -m ruff check .
stage "form" "$python" -m ruff format --check .
stage "types" "$python" -m mypy
if [ "${1:-}" != lint ]; then
  stage "tests without Spark or browser" tests plain "not spark and not browser"
  stage "tests in a browser" tests browser "browser and not spark"
  stage "tests on real Spark" tests spark "spark"
fi

printf '\n── all in %s s\n' "$(($(date +%s) - began))"
[ -z "$failed" ] || printf 'FAILED: %s\n' "${failed#, }"
[ "${1:-}" = lint ] || "$python" scripts/count_tests.py "$reports"/*.xml || failed="$failed, counting"
[ -z "$failed" ]
