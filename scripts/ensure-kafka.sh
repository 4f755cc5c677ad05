#!/bin/sh
#     sh scripts/ensure-kafka.sh [NAME ...]
#
# Gets the jars of a Kafka broker, of Spark's connectors to it, of Delta Lake and of Spark's own tests
# by Maven, into .make/kafka: broker/, a connector-*/ and where there is one a delta-*/ for each line
# of Spark, fixtures-*/ with checkpoints, as tests/*/jars/*.xml name them; all, or those named. What is
# there already is kept, so a second run needs no network. Where names are given or CI=true a failure
# fails the run; else the tests that need them are skipped, and it says so.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here" || exit 2
into=.make/kafka
names=$*
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

give_up() {
  echo "weir: $1" >&2
  [ -z "$names" ] || exit 2
  if [ "${CI:-}" = true ]; then
    echo "weir: CI=true, so nothing may be missing" >&2
    exit 2
  fi
  echo "weir: the tests on a real Kafka broker, and on checkpoints of Spark's own, are skipped" >&2
  exit 0
}

made() { # made NAME LIST: are its jars there, and from what stands in LIST now?
  [ -f "$into/$1/.made" ] && [ "$(cat "$into/$1/.made")" = "$(cksum <"$2")" ]
}

# How far Maven is, on one line of a terminal: it does not say how many files it will get.
watch() { # watch WHAT LOG: until killed
  seconds=0
  # Nor longer than this script: one in the background hears no Ctrl-C.
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    seconds=$((seconds + 1))
    got=$(grep -c -e '^Downloaded' -e 'Copying' "$2" 2>/dev/null)
    printf '\rweir: %s: %s s, %s files ' "$1" "$seconds" "${got:-0}" >&2
  done
}

get() { # get NAME LIST OF
  rm -rf "${into:?}/$1" "$into/$1.new"
  mkdir -p "$into/$1.new"
  : >"$into/$1.log"
  watching=
  if [ -t 2 ]; then
    watch "$3 $1" "$into/$1.log" &
    watching=$!
  else
    echo "weir: $3 getting the jars of $2"
  fi
  mvn --batch-mode --file "$2" "$plugin:copy-dependencies" \
    -DincludeScope=runtime -DoutputDirectory="$here/$into/$1.new" >"$into/$1.log" 2>&1
  came=$?
  if [ -n "$watching" ]; then
    kill "$watching"
    wait "$watching" 2>/dev/null
    printf '\r\033[K' >&2
  fi
  [ "$came" = 0 ] || {
    grep -v '^Download' "$into/$1.log" | tail -n 15 >&2
    give_up "Maven could not get the jars of $2 (all of it: $into/$1.log)"
  }
  cksum <"$2" >"$into/$1.new/.made"
  mv "$into/$1.new" "$into/$1"
  echo "weir: $3 $into/$1: $(find "$into/$1" -name '*.jar' | wc -l | tr -d ' ') jars," \
    "$(du -sm "$into/$1" | cut -f1) MB"
}

wanted=
count=0
for list in tests/*/jars/*.xml; do
  name=$(basename "$list" .xml)
  case " $names " in *" $name "* | "  ") ;; *) continue ;; esac
  made "$name" "$list" && continue
  wanted="$wanted $list"
  count=$((count + 1))
done
[ -z "$wanted" ] || command -v mvn >/dev/null 2>&1 ||
  give_up "mvn is missing (Debian, Ubuntu: apt-get install maven)"
number=0
for list in $wanted; do
  number=$((number + 1))
  get "$(basename "$list" .xml)" "$list" "$number of $count:"
done
