#!/bin/sh
# Makes the vault's key once, and tells the chart the name of the Secret that holds it. The key itself never
# becomes a value: values are stored and shown in more places than a Secret is.
set -eu

if [ "${1-}" = --config ]; then
  printf 'configVersion: v1\nbeforeHelm: 10\nsettings:\n  executionTimeout: 30s\n'
  exit 0
fi

. "$(dirname "$0")/lib/names.sh"

# CreateIfNotExists: runs at every release, and the first key must stay.
key=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
cat > "$KUBERNETES_PATCH_PATH" <<END
operation: CreateIfNotExists
object:
  apiVersion: v1
  kind: Secret
  metadata:
    name: $key_secret
  stringData:
    key: $key
END

cat > "$VALUES_JSON_PATCH_PATH" <<END
[{"op": "add", "path": "/vault/internal/keySecret", "value": "$key_secret"}]
END
echo "the key is in Secret $key_secret"
