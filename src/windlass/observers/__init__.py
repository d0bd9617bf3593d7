"""What watches and compares beside the workflows and notifies them. It decides nothing.

Imports activities, ports and runtime; only `windlass.worker` imports it.
"""
