"""Helm behind `ports.Helm`: warm killable child processes, and the helm program for what the library lacks."""
