#!/bin/sh
# Makes .make/docs, a venv that builds the documentation site (requirements/docs.txt), and gets mermaid,
# which draws its diagrams in the reader's browser, by npm. The site holds that file itself, so that
# reading it fetches nothing from elsewhere. What is there already is kept: a second run needs no network.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$here"
mermaid=11.12.0
digest=07e37dfa97b337ccc85365d57eddf99b9706f09db3b59b260d0333b23b343c4b # SHA-256 of dist/mermaid.min.js

sh scripts/ensure-venv.sh docs 'builds the documentation site'

is_ours() { # is_ours FILE: is it that version of mermaid, to the byte?
  [ -f "$1" ] && echo "$digest  $1" | .make/docs/bin/python -c '
import hashlib, pathlib, sys
wanted, path = sys.stdin.read().split(maxsplit=1)
sys.exit(hashlib.sha256(pathlib.Path(path.strip()).read_bytes()).hexdigest() != wanted)'
}

file=.make/mermaid/mermaid.min.js
is_ours "$file" && exit 0
command -v npm >/dev/null 2>&1 || {
  echo "weir: npm is missing (Debian, Ubuntu: apt-get install npm): it gets mermaid $mermaid" >&2
  exit 2
}
echo "weir: getting mermaid $mermaid"
rm -rf .make/mermaid
mkdir -p .make/mermaid
(cd .make/mermaid && npm pack --silent "mermaid@$mermaid" >npm.log 2>&1 &&
  tar -xzf "mermaid-$mermaid.tgz" --strip-components 2 package/dist/mermaid.min.js) || {
  tail -n 5 .make/mermaid/npm.log >&2
  echo "weir: npm could not get mermaid $mermaid (all of it: .make/mermaid/npm.log)" >&2
  exit 2
}
is_ours "$file" || {
  echo "weir: $file is not mermaid $mermaid as it was looked at: its SHA-256 differs" >&2
  exit 2
}
rm -f ".make/mermaid/mermaid-$mermaid.tgz"
