"""The only importers of kubernetes, helm and subprocess.

Adapters know ports, contracts and domain only.
"""
