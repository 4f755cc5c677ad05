#!/bin/sh
# Checks that the Java that Spark will start is version 17 or newer; says what to do otherwise.
# Spark takes JAVA_HOME's java where JAVA_HOME is set, else the one on PATH; so does this.
set -u

needed=17

give_up() {
  {
    echo "weir: $1"
    if [ "$(uname 2>/dev/null)" = Darwin ]; then
      # Homebrew's is none that macOS finds by itself.
      echo "Spark needs Java $needed or newer. Install one and set JAVA_HOME to it: brew install openjdk@17, then"
      echo 'export JAVA_HOME="$(brew --prefix openjdk@17)/libexec/openjdk.jdk/Contents/Home"'
      set -- "$(/usr/libexec/java_home -v $needed+ 2>/dev/null)" /opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home \
        /usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home
    else
      echo "Spark needs Java $needed or newer. Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless;"
      echo "Fedora: dnf install java-17-openjdk-headless), or set JAVA_HOME to one."
      set -- /usr/lib/jvm/*
    fi
    for home; do
      if [ -n "$home" ] && [ -x "$home/bin/java" ] && major=$(major_of "$home/bin/java") && [ "$major" -ge "$needed" ]; then
        echo "There is one here already: export JAVA_HOME=$home"
        break
      fi
    done
  } >&2
  exit 2
}

# "1.8.0_292" is Java 8, "17.0.15" is 17, "21" and "22-ea" are 21 and 22.
major_of() {
  text=$("$1" -version 2>&1) || return 1
  version=$(printf '%s\n' "$text" | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1)
  case $version in
    1.*) version=${version#1.} ;;
  esac
  version=${version%%[!0-9]*}
  [ -n "$version" ] && echo "$version"
}

if [ -n "${JAVA_HOME:-}" ]; then
  java=$JAVA_HOME/bin/java
  [ -x "$java" ] || give_up "JAVA_HOME is $JAVA_HOME, but there is no bin/java in it."
  where="JAVA_HOME, $JAVA_HOME"
else
  java=$(command -v java 2>/dev/null) || give_up "no Java found: JAVA_HOME is not set and no java is on PATH."
  where="$java"
fi

major=$(major_of "$java") || give_up "$java does not run, or does not tell its version."
[ "$major" -ge "$needed" ] || give_up "Java $major is too old ($where)."
[ "${1:-}" = --quiet ] || echo "Java $major ($where)"
