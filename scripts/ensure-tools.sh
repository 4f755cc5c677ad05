#!/bin/sh
# Looks for the programs outside Python that the tests use, and gets what is missing: by apt where
# this runs as root on Debian or Ubuntu, else it prints what to install. With CI=true a program
# that is still missing fails the run; without, its tests are skipped, and it says so.
#   scripts/ensure-tools.sh [quick]     what the quick tests use
#   scripts/ensure-tools.sh all|rest    and what the slow ones do
set -u

what=${1:-quick}

missing=''  # Debian packages
lacks=''    # what that means, for people

need() { # need PACKAGE "what for" COMMAND...: one of the commands is enough
  package=$1 purpose=$2
  shift 2
  for name in "$@"; do
    command -v "$name" >/dev/null 2>&1 && return 0
  done
  missing="$missing $package"
  lacks="$lacks
  - $1 ($package): $purpose"
}

fonts() { # fonts PACKAGE "what for" FILE: the file is somewhere among the machine's fonts
  for folder in /usr/share/fonts /usr/local/share/fonts; do
    for file in "$folder/$3" "$folder"/*/"$3" "$folder"/*/*/"$3"; do
      [ ! -e "$file" ] || return 0
    done
  done
  missing="$missing $1"
  lacks="$lacks
  - fonts ($1): $2"
}

look() {
  missing='' lacks=''
  sh scripts/check-java.sh --quiet 2>/dev/null || {
    missing="$missing openjdk-17-jre-headless"
    lacks="$lacks
  - java 17 or newer (openjdk-17-jre-headless): Spark itself; nothing of it can be tested without"
  }
  sh scripts/find-python.sh >/dev/null 2>&1 || {
    missing="$missing python3 python3-venv"
    lacks="$lacks
  - python 3.10 or newer with venv (python3 python3-venv)"
  }
  # scripts/plugin_jar.py takes that of JAVA_HOME first.
  [ -x "${JAVA_HOME:-/nowhere}/bin/javac" ] || need openjdk-17-jdk-headless 'compiles the Spark plugin' javac
  [ "$what" = quick ] || need docker-registry 'takes the chart as it is published' docker-registry registry
  [ "$what" != release ] || return 0 # make release and make release-check use no more
  need chromium 'tests of the status page' chromium chromium-browser google-chrome
  need prometheus 'tests of metrics and alert rules' promtool
  need prometheus-alertmanager 'tests of the Alertmanager example' amtool
  need maven 'gets the jars of the Kafka broker that tests start' mvn
  [ "$what" = quick ] || need gnupg 'signs the bundle for Maven' gpg
  [ "$what" = quick ] || need npm 'gets what draws the diagrams of the documentation site' npm
  need openssl 'tests of certificates' openssl
  need git 'tests of what is committed' git
  [ "$what" = quick ] || need etcd-server "the chart's test on a real API server" etcd
  # Without any font a browser draws no text at all; with these two, letters are narrow and wide.
  fonts fonts-liberation 'the layout of the status page' LiberationSans-Regular.ttf
  fonts fonts-dejavu-core 'the layout of the status page' DejaVuSans.ttf
}

install() {
  echo "weir: installing$missing"
  # Packages may start what they bring; nothing of it is wanted as a service.
  policy=${WEIR_POLICY_RC:-/usr/sbin/policy-rc.d}
  ours=no
  if [ ! -e "$policy" ]; then
    # Whatever ends this, it goes: with it no package would start a service any more.
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && ours=yes
  fi
  log=.make/apt.log
  mkdir -p .make
  # shellcheck disable=SC2086 # a list of package names
  if { apt-get update -q && DEBIAN_FRONTEND=noninteractive \
       apt-get install -q -y --no-install-recommends $missing; } >"$log" 2>&1; then
    done=yes
  else
    done=no
    echo "weir: apt-get failed; the end of $log:" >&2
    tail -n 15 "$log" >&2
  fi
  [ "$ours" = yes ] && rm -f "$policy"
  [ "$done" = yes ]
}

look
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  install
  look
fi
[ -n "$missing" ] || exit 0

{
  echo "weir: missing here:$lacks"
  echo "On Debian or Ubuntu: sudo apt-get install$missing"
} >&2
if [ "${CI:-}" = true ]; then
  echo "weir: CI=true, so nothing may be missing" >&2
  exit 2
fi
case $missing in
  *openjdk-17-jre* | *python3*) exit 2 ;;
esac
echo "weir: the tests that need them are skipped" >&2
