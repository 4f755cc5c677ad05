#!/bin/sh
# Builds Kubernetes' API server with Go into .make/tools, for the slow test that installs the chart
# on a real one; etcd, which it keeps everything in, is scripts/ensure-tools.sh's. What is there
# already is kept. With CI=true a failure fails the run; without, the test is skipped, and it says so.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
into=$here/.make/tools
name=kube-apiserver
minor=33 # tried with the etcd 3.4 that Debian has
patch=13
module=k8s.io/kubernetes
version=v1.$minor.$patch

give_up() {
  echo "weir: $1" >&2
  if [ "${CI:-}" = true ]; then
    echo "weir: CI=true, so nothing may be missing" >&2
    exit 2
  fi
  echo "weir: the test of the chart on a real API server is skipped" >&2
  exit 0
}

[ -f "$into/.$name" ] && [ "$(cat "$into/.$name")" = "$version" ] && exit 0
command -v go >/dev/null 2>&1 || give_up "go is missing: install Go 1.24 or newer"
mkdir -p "$into"
log=$into/$name.log
failed() {
  tail -n 15 "$log" >&2
  give_up "Go could not build $name (all of it: .make/tools/$name.log)"
}

echo "weir: building $name $version (some minutes, the first time)"
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
found=$(go mod download -json "$module@$version" 2>"$log") || failed
mod=$(printf '%s\n' "$found" | sed -n 's/^[[:space:]]*"GoMod": "\(.*\)",*$/\1/p')
# In its own tree its parts are folders beside it, and "replace" holds for a main module only: here
# each is the release of that part, whose version is 0.x for 1.x.
{
  echo "module weir.invalid/apiserver"
  sed -n 's/^go .*/&/p' "$mod"
  echo "require $module $version"
  sed -n "s|^[[:space:]]*\(k8s.io/[a-z-]*\) => ./staging/.*|replace \1 => \1 v0.$minor.$patch|p" "$mod"
} >go.mod
about=k8s.io/component-base/version
GOFLAGS="-mod=mod -trimpath" go build -o "$into/$name" \
  -ldflags="-s -w -X $about.gitVersion=$version -X $about.gitMajor=1 -X $about.gitMinor=$minor" \
  "$module/cmd/$name" >>"$log" 2>&1 || failed
echo "$version" >"$into/.$name"
