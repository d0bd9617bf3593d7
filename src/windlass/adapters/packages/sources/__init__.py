"""Where packages come from and go to: folders, Helm repositories, web servers, OCI registries, signatures."""
