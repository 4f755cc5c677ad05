#!/bin/sh
# Builds helm and helm-docs with Go, and fetches the schemas of the Prometheus operator's kinds, into
# .make/tools, for the tests of the chart. What is there already is kept, so a second run is quick.
# With CI=true a failure fails the run; without, the tests that need them are skipped, and it says so.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here" || exit 2
into=$here/.make/tools
helm=v3.21.4
kubernetes=36 # the minor of Kubernetes that this helm is made for; told to it by its own Makefile
helm_docs=v1.14.2
operator=v0.85.0

give_up() {
  echo "weir: $1" >&2
  if [ "${CI:-}" = true ]; then
    echo "weir: CI=true, so nothing may be missing" >&2
    exit 2
  fi
  echo "weir: the tests of the Helm chart are skipped" >&2
  exit 0
}

made() { [ -f "$into/.$1" ] && [ "$(cat "$into/.$1")" = "$2" ]; }

made helm "$helm-$kubernetes" && made helm-docs "$helm_docs" && made crds "$operator" && exit 0
command -v go >/dev/null 2>&1 || give_up "go is missing: install Go 1.26 or newer"
mkdir -p "$into"

build() { # build NAME VERSION PACKAGE [MARK [LINKER FLAGS]]
  made "$1" "${4:-$2}" && return
  echo "weir: building $1 $2 (minutes, the first time)"
  GOBIN=$into GOFLAGS=-trimpath go install -ldflags="-s -w ${5:-}" "$3@$2" >"$into/$1.log" 2>&1 || {
    tail -n 15 "$into/$1.log" >&2
    give_up "Go could not build $1 (all of it: .make/tools/$1.log)"
  }
  echo "${4:-$2}" >"$into/.$1"
}

own=helm.sh/helm/v3
flags="-X $own/internal/version.version=$helm"
for package in chartutil lint/rules; do
  flags="$flags -X $own/pkg/$package.k8sVersionMajor=1 -X $own/pkg/$package.k8sVersionMinor=$kubernetes"
done
build helm "$helm" "$own/cmd/helm" "$helm-$kubernetes" "$flags"
build helm-docs "$helm_docs" github.com/norwoodj/helm-docs/cmd/helm-docs

made crds "$operator" || {
  module=github.com/prometheus-operator/prometheus-operator
  # Outside of this folder, so that no go.mod of anybody's has a say.
  found=$(cd / && go mod download -json "$module@$operator" 2>"$into/crds.log") || {
    tail -n 15 "$into/crds.log" >&2
    give_up "Go could not fetch $module"
  }
  folder=$(printf '%s\n' "$found" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
  mkdir -p "$into/crds"
  for kind in servicemonitors podmonitors prometheusrules; do
    install -m 644 "$folder/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" "$into/crds/$kind.yaml" ||
      give_up "$module $operator has no schema of $kind"
  done
  echo "$operator" >"$into/.crds"
}
