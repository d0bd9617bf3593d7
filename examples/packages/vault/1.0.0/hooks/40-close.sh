#!/bin/sh
# Before the release goes, tells users of the vault that it is closing; after it has gone, takes away what hooks made.
set -eu

if [ "${1-}" = --config ]; then
  printf 'configVersion: v1\nbeforeDeleteHelm: 10\nafterDeleteHelm: 10\n'
  exit 0
fi

. "$(dirname "$0")/lib/names.sh"

if grep -q '"binding": *"beforeDeleteHelm"' "$BINDING_CONTEXT_PATH"; then
  cat > "$KUBERNETES_PATCH_PATH" <<END
operation: MergePatch
kind: ConfigMap
name: $address_map
ignoreMissingObject: true
mergePatch:
  data:
    sealed: "true"
END
  exit 0
fi

cat > "$KUBERNETES_PATCH_PATH" <<END
operation: DeleteInBackground
kind: ConfigMap
name: $address_map
---
operation: DeleteInBackground
kind: Secret
name: $key_secret
END
echo "the key is destroyed"
