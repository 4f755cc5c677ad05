#!/bin/sh
# Adds a signature (.asc) by gpg's default key beside each file of a Maven bundle.
#   scripts/sign-bundle.sh BUNDLE.zip SIGNED.zip     PASSPHRASE in the environment, where the key has one
set -eu

[ $# = 2 ] && [ -f "$1" ] || { echo "usage: scripts/sign-bundle.sh BUNDLE.zip SIGNED.zip" >&2; exit 2; }
command -v gpg >/dev/null 2>&1 || { echo "weir: gpg is missing (Debian, Ubuntu: apt-get install gnupg)" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m zipfile -e "$1" "$work/bundle"
find "$work/bundle" -type f ! -name '*.md5' ! -name '*.sha1' ! -name '*.sha256' | while IFS= read -r file; do
  printf '%s' "${PASSPHRASE:-}" |
    gpg --batch --yes --pinentry-mode loopback --passphrase-fd 0 --armor --detach-sign "$file"
done
rm -f "$2"
(cd "$work/bundle" && python3 -m zipfile -c "$work/signed.zip" ./*)
mv "$work/signed.zip" "$2"
