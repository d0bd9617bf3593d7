"""Access to the clusters of packages: service accounts, kubeconfigs from Secrets, pooled connections."""
