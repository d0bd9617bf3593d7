"""The content of packages on this machine, by digest."""
