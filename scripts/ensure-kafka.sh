#!/bin/sh
# Gets the jars of a Kafka broker, of Spark's connectors to it, of Delta Lake and of Spark's own tests
# by Maven, into .make/kafka: broker/, a connector-*/ and where there is one a delta-*/ for each line
# of Spark, fixtures-*/ with checkpoints, as tests/*/jars/*.xml name them. What is there already is
# kept, so a second run needs no network. With CI=true a failure fails the run; without, the tests
# that need them are skipped, and it says so.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here" || exit 2
into=.make/kafka
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1

give_up() {
  echo "weir: $1" >&2
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

for list in tests/*/jars/*.xml; do
  name=$(basename "$list" .xml)
  made "$name" "$list" && continue
  command -v mvn >/dev/null 2>&1 || give_up "mvn is missing (Debian, Ubuntu: apt-get install maven)"
  echo "weir: getting the jars of $list"
  rm -rf "${into:?}/$name" "$into/$name.new"
  mkdir -p "$into/$name.new"
  mvn --batch-mode --quiet --file "$list" "$plugin:copy-dependencies" \
    -DincludeScope=runtime -DoutputDirectory="$here/$into/$name.new" >"$into/$name.log" 2>&1 || {
    tail -n 15 "$into/$name.log" >&2
    give_up "Maven could not get the jars of $list (all of it: $into/$name.log)"
  }
  cksum <"$list" >"$into/$name.new/.made"
  mv "$into/$name.new" "$into/$name"
done
