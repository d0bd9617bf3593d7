"""The hook protocol's decisions: what ``--config`` may say, what a failure is called, what goes into the files.

Field names and shapes are those of the shell-operator and addon-operator protocol, so that their lifecycle hooks run
unchanged; bindings that wait for the room left in ``docs/adr/0004-hook-bindings.md`` are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from windlass.domain.errors import Reason
from windlass.domain.hooks.bindings import KubernetesBinding
from windlass.domain.hooks.kubernetes_bindings import parse_bindings
from windlass.domain.hooks.refusals import described, refuse
from windlass.domain.packages.model import ORDERED, Binding, Hook, Values
from windlass.domain.settings.values import camel_key
from windlass.domain.text.documents import DocumentError, is_object, parse_document

DEFAULT_TIMEOUT: Final = 300.0
"""Seconds a run may take when the hook says nothing; the protocol itself knows no limit."""

MAX_TIMEOUT: Final = 3600.0
"""Seconds a hook may ask for; a lifecycle step that takes longer is a Job of the chart."""

_FAILURES: Final = {
    Binding.ON_STARTUP: Reason.STARTUP_HOOK_FAILED,
    Binding.BEFORE_HELM: Reason.BEFORE_HELM_HOOKS_FAILED,
    Binding.AFTER_HELM: Reason.AFTER_HELM_HOOKS_FAILED,
    Binding.BEFORE_DELETE_HELM: Reason.BEFORE_DELETE_HELM_HOOKS_FAILED,
    Binding.AFTER_DELETE_HELM: Reason.AFTER_DELETE_HELM_HOOKS_FAILED,
    Binding.KUBERNETES: Reason.EVENT_HOOK_FAILED,
}

_BINDINGS: Final = {
    "v0": (Binding.ON_STARTUP,),
    "v1": ORDERED,
}
_NOT_SERVED: Final = {
    "v0": ("schedule", "onKubernetesEvent"),
    "v1": (
        "schedule",
        "kubernetesValidating",
        "kubernetesMutating",
        "kubernetesCustomResourceConversion",
    ),
}
_GLOBAL_ONLY: Final = ("beforeAll", "afterAll")
_RATE_LIMITS: Final = ("executionMinInterval", "executionBurst")

_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_SECONDS: Final = (3600.0, 60.0, 1.0, 0.001)


def failure_reason(binding: Binding) -> Reason:
    """Return the condition reason of a failed hook of this binding (reference: deckhouse.md section 2.6)."""
    return _FAILURES[binding]


def parse_config(path: str, text: str) -> Hook:
    """Read what the hook at ``path`` printed when it was called with ``--config``.

    Served are ``configVersion: v1`` with ``onStartup``, ``beforeHelm``, ``afterHelm``, ``beforeDeleteHelm``,
    ``afterDeleteHelm`` and ``kubernetes``, and without ``configVersion`` (the protocol's v0) ``onStartup``.
    ``settings.executionTimeout`` is Windlass's own addition: a Go duration of at most an hour.

    Raises:
        PermanentError: INIT_HOOKS_FAILED naming file, key and what is expected there.
    """
    config = _document(path, text)
    version = _version(path, config)
    orders: dict[Binding, int] = {}
    bindings: tuple[KubernetesBinding, ...] = ()
    timeout = DEFAULT_TIMEOUT
    for key, value in config.items():
        if key in _BINDINGS[version]:
            binding = Binding(key)
            orders[binding] = _order(path, binding, value)
        elif key == "settings" and version == "v1":
            timeout = _timeout(path, value)
        elif key == Binding.KUBERNETES and version == "v1":
            bindings = parse_bindings(path, value)
        elif key != "configVersion":
            _refuse_key(path, key, version)
    if not orders and not bindings:
        refuse(path, "", f"binds to nothing, expected at least one of {_names(version)}")
    return Hook(path=path, orders=orders, timeout=timeout, kubernetes=bindings)


def binding_context(binding: Binding, snapshots: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the content of ``BINDING_CONTEXT_PATH`` for a lifecycle binding.

    onStartup never carries snapshots; the Helm bindings always do, of every kubernetes binding of the hook
    (reference: hooks.md section 3).
    """
    if binding is Binding.ON_STARTUP:
        return [{"binding": binding.value}]
    return [{"binding": binding.value, "snapshots": dict(snapshots or {})}]


def values_file(package_name: str, values: Values, global_values: Values) -> Values:
    """Return the content of ``VALUES_PATH``: the merged values under the package's camelCase key, beside ``global``."""
    return {"global": global_values, camel_key(package_name): values}


def config_values_file(package_name: str, settings: Values, global_settings: Values) -> Values:
    """Return the content of ``CONFIG_VALUES_PATH``: as `values_file`, but only what users have set."""
    return values_file(package_name, settings, global_settings)


def _document(path: str, text: str) -> Mapping[str, Any]:
    try:
        document = parse_document(text)
    except DocumentError as error:
        key = f" ({error.key!r})" if error.key else ""
        refuse(path, "", f"cannot be read at {error.position}: {error.problem}{key}")
    if not is_object(document):
        refuse(path, "", f"printed {described(document)}, expected an object with bindings")
    return document


def _version(path: str, config: Mapping[str, Any]) -> str:
    if "configVersion" not in config:
        return "v0"
    version = config["configVersion"]
    if version != "v1":
        refuse(path, "configVersion", f"{described(version)}, expected 'v1' or no such key")
    return "v1"


def _order(path: str, binding: Binding, value: Any) -> int:
    lowest = None if binding is Binding.ON_STARTUP else 0
    if not isinstance(value, int) or isinstance(value, bool):
        expected = "expected an integer (the order among the hooks of this binding)"
        refuse(path, binding.value, f"{described(value)}, {expected}")
    if lowest is not None and value < lowest:
        refuse(path, binding.value, f"{value}, expected an integer of at least {lowest}")
    return value


def _timeout(path: str, settings: Any) -> float:
    if not is_object(settings):
        refuse(path, "settings", f"{described(settings)}, expected an object with executionTimeout")
    for key in settings:
        if key in _RATE_LIMITS:
            refuse(path, f"settings.{key}", "not served by this version of Windlass, remove it")
        if key != "executionTimeout":
            refuse(path, f"settings.{key}", "unknown key, expected executionTimeout")
    if not settings:
        return DEFAULT_TIMEOUT
    given = settings["executionTimeout"]
    seconds = _go_duration(given) if isinstance(given, str) else None
    if seconds is None or not 0 < seconds <= MAX_TIMEOUT:
        expected = f"a duration such as '90s' or '5m', at most {MAX_TIMEOUT / 3600:g}h"
        refuse(path, "settings.executionTimeout", f"{described(given)}, expected {expected}")
    return seconds


def _go_duration(text: str) -> float | None:
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    return sum(float(part) * unit for part, unit in zip(found.groups(), _SECONDS, strict=True) if part)


def _refuse_key(path: str, key: str, version: str) -> NoReturn:
    if key in _NOT_SERVED[version]:
        refuse(path, key, f"this version of Windlass does not serve this binding, only {_names(version)}")
    if key in _GLOBAL_ONLY:
        refuse(path, key, "a binding of global hooks, a package's hook cannot have it")
    if version == "v0" and key in {*_BINDINGS["v1"], *_NOT_SERVED["v1"], Binding.KUBERNETES.value, "settings"}:
        refuse(path, key, "needs 'configVersion: v1' beside it")
    refuse(path, key, f"unknown key, expected {_names(version)}")


def _names(version: str) -> str:
    names = [binding.value for binding in _BINDINGS[version]]
    return ", ".join([*names, Binding.KUBERNETES.value] if version == "v1" else names)
