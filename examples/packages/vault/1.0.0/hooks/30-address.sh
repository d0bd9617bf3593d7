#!/bin/sh
# Once the release is ready, writes down where the vault answers, for whoever wants to use it.
set -eu

if [ "${1-}" = --config ]; then
  printf 'configVersion: v1\nafterHelm: 10\n'
  exit 0
fi

. "$(dirname "$0")/lib/names.sh"

cat > "$KUBERNETES_PATCH_PATH" <<END
operation: CreateOrUpdate
object:
  apiVersion: v1
  kind: ConfigMap
  metadata:
    name: $address_map
  data:
    address: http://$instance.$WINDLASS_NAMESPACE.svc:8200
    sealed: "false"
END
