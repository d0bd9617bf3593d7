"""The Kubernetes objects of service sets (``windlass.dev/v1alpha1``) as the API server checks them.

These models are the schemas: `windlass.contracts.crds` generates the definitions in ``deploy/crds`` from them. Fields
have K0rdent's names, so that a manifest moves over by changing its ``apiVersion``. Decisions read
`windlass.domain.servicesets.models`; a test compares the two. Every list and text has a limit: objects stay within what
etcd stores, and rules within the API server's budget.
"""
