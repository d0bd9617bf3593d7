"""Façades over the Temporal client. The CLI, the web page and the watcher speak through them.

`Runtime` and `Operator` are the public ones: the verbs of the package runtimes that Windlass has the counterparts of.
"""

from windlass.runtime.operator import Instance, Operator
from windlass.runtime.runtime import App, Module, Runtime, SettingsCheck

__all__ = ["App", "Instance", "Module", "Operator", "Runtime", "SettingsCheck"]
