#!/bin/sh
# Says before anything else runs whether this machine can make keys at all.
set -eu

if [ "${1-}" = --config ]; then
  printf 'configVersion: v1\nonStartup: 10\n'
  exit 0
fi

[ -r /dev/urandom ] || { echo "no source of randomness: /dev/urandom cannot be read" >&2; exit 1; }
echo "keys can be made"
