#!/bin/sh
# Lint, types and tests, quick things first. Every stage runs even when one before it failed, so
# that one run tells everything. The last line counts the tests: "N passed, N failed, …".
#   scripts/test.sh         lint, types and the quick tests: all but those marked "slow"
#   scripts/test.sh all     all but courses; what the former has just passed on exactly this tree is not
#                           run again, but counted
#   scripts/test.sh rest    the second less the first
#   scripts/test.sh courses  what both leave out: each for minutes at a load's own pace, one by one
#   scripts/test.sh lint    lint and types
#   scripts/test.sh ready [quick|rest]  gets what the first, or the third, needs, and runs nothing
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here" || exit 2
python=.venv/bin/python
what=${1:-quick}
quick=.make/reports/quick
rest=.make/reports/rest
courses=.make/reports/courses
caches=.make/pytest
failed=''
only_ready=no

case $what in
  quick | all | rest | courses | lint) ;;
  ready) what=${2:-quick} only_ready=yes ;;
  *) echo "usage: scripts/test.sh [all|rest|courses|lint|ready]" >&2; exit 2 ;;
esac

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
  cache=$caches/$(basename "$report")
  rm -rf "$cache"
  # The "ci" profile draws the same examples each time and sets no deadline: a busy machine is no fault.
  set -- "$@" -m "$mark" --hypothesis-profile=ci -o cache_dir="$cache"
  "$python" -m pytest --junitxml="$report.xml" "$@"
  status=$?
  [ "$status" = 5 ] && return 0
  [ "$status" = 1 ] || return "$status"
  # Real programs on a shared machine: what fails gets one more chance, alone, and the end names it.
  # Many at once are a break, not bad luck.
  few=$("$python" scripts/count_tests.py --few "$report.xml") || return "$status"
  printf '\n── once more, alone: %s\n' "$few"
  "$python" -m pytest --junitxml="$report.again.xml" "$@" -n 0 --last-failed --last-failed-no-failures none
}

# This tree, to the byte, with what is not committed, and what its tests run with; nothing where
# that cannot be told.
tree() {
  rm -f .make/index
  cp "$(git rev-parse --git-path index 2>/dev/null)" .make/index 2>/dev/null # it knows what has not changed
  GIT_INDEX_FILE=.make/index git add --all 2>/dev/null &&
    GIT_INDEX_FILE=.make/index git write-tree 2>/dev/null &&
    { echo "CI=${CI:-}"; cksum <.venv/.weir-dev; "$python" -VV; }
  rm -f .make/index
}

prepare() {
  if [ "$what" != lint ]; then
    case $what in courses) tools=quick ;; *) tools=$what ;; esac
    sh scripts/ensure-tools.sh "$tools" || exit 2
    sh scripts/check-java.sh --quiet || exit 2
  fi
  sh scripts/setup.sh dev || exit 2
  [ "$what" != lint ] || return 0
  "$python" -m scripts.plugin_jar || [ "${CI:-}" != true ] || exit 2
  sh scripts/ensure-kafka.sh || exit 2
  sh scripts/ensure-helm.sh || exit 2
  case $what in quick | courses) return 0 ;; esac
  sh scripts/ensure-apiserver.sh || exit 2
  # Beside the default: the oldest Spark, and the newest that this Python can run.
  sparks='3.5 4.3'
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || sparks='3.5'
  # shellcheck disable=SC2086 # a list
  sh scripts/ensure-sparks.sh $sparks client || exit 2
  sh scripts/ensure-venv.sh release 'builds releases' || exit 2
  sh scripts/ensure-docs.sh || [ "${CI:-}" != true ] || exit 2
}

lint() {
  stage "lint" "$python" -m ruff check .
  stage "form" "$python" -m ruff format --check .
  stage "types" "$python" -m mypy
}

# By file, as a file's tests share what is started, in the order of the files: the longest are in the
# first. More at a time than there are cores, as most wait: for programs, triggers,
# retention and time-outs, and use a quarter of the time or less. Each at a time on Spark takes
# about 1.5 GB.
by_file="--dist loadfile --no-loadscope-reorder"
many="-n $(($(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) * 3)) $by_file"

# The files that have tests of a kind: with them alone each process has little to collect.
# tests/conftest.py sees to it that none is marked elsewhere.
marked() {
  # Begun first, or in the end all processes wait for one of them.
  longest='tests/plugin/test_job(s|_lives).py|tests/packaging/test_release.py|tests/packaging/test_quick_and_all.py'
  found=$(grep -rl --include='test_*.py' "pytest\.mark\.$1" tests | sort)
  echo "$found" | grep -xE "$longest"
  echo "$found" | grep -vxE "$longest"
}

run_quick() {
  rm -rf "$quick"
  mkdir -p "$quick"
  tree >"$quick/tree"
  lint
  # shellcheck disable=SC2086 # options
  stage "tests without Spark or browser" tests "$quick/plain" "not slow and not spark and not browser" $many
  # shellcheck disable=SC2046 # files
  stage "tests in a browser" tests "$quick/browser" "not slow and browser and not spark" -n 3 $(marked browser)
  # shellcheck disable=SC2046,SC2086 # options, files
  stage "tests on real Spark" tests "$quick/spark" "not slow and spark" -n 4 $by_file $(marked spark)
  printf '\n── the slowest\n'
  "$python" scripts/count_tests.py --slowest "$quick"/*.xml || failed="$failed, a test that takes too much"
  [ -n "$failed" ] || touch "$quick/passed"
}

run_rest() {
  rm -rf "$rest"
  mkdir -p "$rest"
  # shellcheck disable=SC2046,SC2086
  stage "slow tests without Spark or browser" tests "$rest/plain" "slow and not course and not spark and not browser" $many $(marked slow)
  # shellcheck disable=SC2046
  stage "slow tests in a browser" tests "$rest/browser" "slow and not course and browser and not spark" -n 2 $(marked browser)
  # shellcheck disable=SC2046,SC2086
  stage "slow tests on real Spark" tests "$rest/spark" "slow and not course and spark" -n 3 $by_file $(marked spark)
  # shellcheck disable=SC2086
  stage "the oldest and the newest Spark" "$python" -m tests.matrix $sparks --reports "$rest"
}

run_courses() {
  rm -rf "$courses"
  mkdir -p "$courses"
  # shellcheck disable=SC2046
  stage "courses" tests "$courses/all" course -n 0 $(marked course)
}

began=$(date +%s)
prepare
printf '\n── ready in %s s\n' "$(($(date +%s) - began))"
[ "$only_ready" = no ] || exit 0
mkdir -p .make
began=$(date +%s)
same=no # is what stands in $quick of this tree?
[ -s "$quick/tree" ] && [ "$(cat "$quick/tree")" = "$(tree)" ] && same=yes
case $what in
  lint) lint ;;
  quick) run_quick ;;
  rest) run_rest ;;
  courses) run_courses ;;
  all)
    if [ "$same" = yes ] && [ -f "$quick/passed" ]; then
      printf '\n── make test has passed on exactly this tree: what it ran is counted, not run again\n'
    else
      run_quick
    fi
    same=yes
    run_rest
    rm -f "$quick/passed" # the next time by itself it runs everything
    ;;
esac

printf '\n── all in %s s\n' "$(($(date +%s) - began))"
[ -z "$failed" ] || printf 'FAILED: %s\n' "${failed#, }"
case $what in
  lint) ;;
  courses) "$python" scripts/count_tests.py "$courses"/*.xml || failed="$failed, counting" ;;
  quick) "$python" scripts/count_tests.py "$quick"/*.xml || failed="$failed, counting" ;;
  *)
    [ "$same" = yes ] || quick=
    "$python" scripts/count_tests.py ${quick:+"$quick"/*.xml} "$rest"/*.xml || failed="$failed, counting"
    ;;
esac
[ -z "$failed" ]
