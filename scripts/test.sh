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
caches=.make/pytest
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

tests() { # tests REPORT MARK [OPTION...]: 5 is pytest's "no test of that kind"
  report=$1 mark=$2
  shift 2
  rm -rf "$caches/$report"
  # The "ci" profile draws the same examples each time and sets no deadline: a busy machine is no fault.
  set -- "$@" -m "$mark" --hypothesis-profile=ci -o cache_dir="$caches/$report" --durations=5 --durations-min=10
  "$python" -m pytest --junitxml="$reports/$report.xml" "$@"
  status=$?
  [ "$status" = 5 ] && return 0
  [ "$status" = 1 ] || return "$status"
  # Real programs on a shared machine: what fails gets one more chance, alone, and the end names it.
  # Many at once are a break, not bad luck.
  few=$("$python" scripts/count_tests.py --few "$reports/$report.xml") || return "$status"
  printf '\n── once more, alone: %s\n' "$few"
  "$python" -m pytest --junitxml="$reports/$report.again.xml" "$@" -n 0 --last-failed --last-failed-no-failures none
}

if [ "${1:-}" != lint ]; then
  sh scripts/ensure-tools.sh || exit 2
  sh scripts/check-java.sh --quiet || exit 2
fi
sh scripts/setup.sh dev || exit 2
[ "${1:-}" = lint ] || sh scripts/ensure-kafka.sh || exit 2
[ "${1:-}" = lint ] || sh scripts/ensure-helm.sh || exit 2
# Beside the default: the oldest Spark, and the newest that this Python can run.
sparks='3.5 4.3'
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || sparks='3.5'
# shellcheck disable=SC2086 # a list
[ "${1:-}" = lint ] || sh scripts/ensure-sparks.sh $sparks || exit 2
rm -rf "$reports"
mkdir -p "$reports"

stage "lint" "$python" -m ruff check .
stage "form" "$python" -m ruff format --check .
stage "types" "$python" -m mypy
if [ "${1:-}" != lint ]; then
  stage "tests without Spark or browser" tests plain "not spark and not browser" -n auto --dist loadfile
  stage "tests in a browser" tests browser "browser and not spark"
  # Two at a time: most of them wait, for triggers, retention and time-outs. By file, as a file's
  # tests may share what is started, and the longest, which are in the first files, first.
  stage "tests on real Spark" tests spark "spark" -n 2 --dist loadfile --no-loadscope-reorder
  # shellcheck disable=SC2086
  stage "the oldest and the newest Spark" "$python" -m tests.matrix $sparks --reports "$reports"
fi

printf '\n── all in %s s\n' "$(($(date +%s) - began))"
[ -z "$failed" ] || printf 'FAILED: %s\n' "${failed#, }"
[ "${1:-}" = lint ] || "$python" scripts/count_tests.py "$reports"/*.xml || failed="$failed, counting"
[ -z "$failed" ]
