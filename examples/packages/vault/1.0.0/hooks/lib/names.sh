# Sourced by the hooks beside it; folders called lib hold no hooks.

# A package id is <namespace>.<instance>. Windlass puts "<instance>-" in front of the names of objects that hooks make
# and leaves it alone where it stands already: written out here, the chart can be told the whole name.
instance=${WINDLASS_PACKAGE#*.}
key_secret=$instance-vault-key
address_map=$instance-vault-address
