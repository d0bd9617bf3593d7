"""The Kubernetes API behind `ports.Kube`: the one typed seam over the untyped client."""
