from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.hooks.configuration import (
    DEFAULT_TIMEOUT,
    binding_context,
    config_values_file,
    failure_reason,
    parse_config,
    values_file,
)
from windlass.domain.packages.model import Binding

PATH = "hooks/10-secret.sh"


def v1(**keys: Any) -> str:
    return json.dumps({"configVersion": "v1"} | keys)


def test_all_lifecycle_bindings_with_their_orders() -> None:
    text = """
configVersion: v1
onStartup: -5
beforeHelm: 10
afterHelm: 20
beforeDeleteHelm: 0
afterDeleteHelm: 7
"""
    hook = parse_config(PATH, text)
    assert hook.path == PATH
    assert hook.timeout == DEFAULT_TIMEOUT
    assert hook.orders == {
        Binding.ON_STARTUP: -5,
        Binding.BEFORE_HELM: 10,
        Binding.AFTER_HELM: 20,
        Binding.BEFORE_DELETE_HELM: 0,
        Binding.AFTER_DELETE_HELM: 7,
    }


def test_json_and_the_version_without_a_version() -> None:
    assert parse_config(PATH, v1(afterHelm=1)).orders == {Binding.AFTER_HELM: 1}
    assert parse_config(PATH, '{"onStartup": 1}').orders == {Binding.ON_STARTUP: 1}


@pytest.mark.parametrize(
    ("given", "seconds"), [("90s", 90), ("1m30s", 90), ("1500ms", 1.5), ("1h", 3600), ("0.5s", 0.5)]
)
def test_execution_timeout_is_a_go_duration(given: Any, seconds: float) -> None:
    assert parse_config(PATH, v1(beforeHelm=1, settings={"executionTimeout": given})).timeout == seconds


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("", "", "printed nothing, expected an object"),
        ("just words", "", "expected an object"),
        ("[1]", "", "printed a list"),
        ("{", "", "cannot be read at line 1, column 2 (byte 1): Expecting property name"),
        (v1(), "", "binds to nothing, expected at least one of onStartup, beforeHelm"),
        ("{}", "", "binds to nothing, expected at least one of onStartup"),
        ('{"configVersion": "v2", "onStartup": 1}', "configVersion", "'v2', expected 'v1'"),
        ('{"configVersion": "", "onStartup": 1}', "configVersion", "'', expected 'v1'"),
        ('{"configVersion": 1, "onStartup": 1}', "configVersion", "1, expected 'v1'"),
        (v1(beforeHelm="10"), "beforeHelm", "'10', expected an integer"),
        (v1(beforeHelm=True), "beforeHelm", "True, expected an integer"),
        (v1(beforeHelm=1.5), "beforeHelm", "1.5, expected an integer"),
        (v1(beforeHelm=None), "beforeHelm", "nothing, expected an integer"),
        (v1(beforeHelm=[1]), "beforeHelm", "a list, expected an integer"),
        (v1(afterDeleteHelm=-1), "afterDeleteHelm", "-1, expected an integer of at least 0"),
        (v1(beforeHlem=1), "beforeHlem", "unknown key, expected onStartup, beforeHelm"),
        (v1(beforeAll=1), "beforeAll", "a binding of global hooks"),
        (v1(schedule=[{"crontab": "* * * * *"}]), "schedule", "this version of Windlass does not serve this binding"),
        (v1(kubernetes={}, beforeHelm=1), "kubernetes", "an object, expected a list"),
        (v1(kubernetesValidating=[]), "kubernetesValidating", "does not serve this binding"),
        (v1(kubernetesMutating=[]), "kubernetesMutating", "does not serve this binding"),
        (v1(kubernetesCustomResourceConversion=[]), "kubernetesCustomResourceConversion", "does not serve"),
        ('{"onKubernetesEvent": []}', "onKubernetesEvent", "does not serve this binding"),
        ('{"beforeHelm": 1}', "beforeHelm", "needs 'configVersion: v1' beside it"),
        ('{"onStartup": 1, "settings": {}}', "settings", "needs 'configVersion: v1' beside it"),
        (v1(onStartup=1, settings=3), "settings", "3, expected an object"),
        (v1(onStartup=1, settings={"executionBurst": 1}), "settings.executionBurst", "not served"),
        (v1(onStartup=1, settings={"executionMinInterval": "1s"}), "settings.executionMinInterval", "not served"),
        (v1(onStartup=1, settings={"x": 1}), "settings.x", "unknown key, expected executionTimeout"),
        (v1(onStartup=1, settings={"executionTimeout": 30}), "settings.executionTimeout", "30, expected a duration"),
        (v1(onStartup=1, settings={"executionTimeout": "0s"}), "settings.executionTimeout", "expected a duration"),
        (v1(onStartup=1, settings={"executionTimeout": "2h"}), "settings.executionTimeout", "at most 1h"),
        (v1(onStartup=1, settings={"executionTimeout": "soon"}), "settings.executionTimeout", "expected a duration"),
        (
            '{"configVersion": "v1", "onStartup": 1, "onStartup": 2}',
            "",
            "a key stands twice in one object ('onStartup')",
        ),
    ],
)
def test_a_wrong_configuration_names_file_key_and_what_is_expected(text: str, key: str, says: str) -> None:
    with pytest.raises(PermanentError) as caught:
        parse_config(PATH, text)
    error = caught.value
    assert (error.reason, error.actor) == (Reason.INIT_HOOKS_FAILED, Actor.AUTHOR)
    assert error.message.startswith(f"{PATH} --config: {key}")
    assert says in error.message
    assert error.hint


def test_every_binding_has_a_reason_of_its_own() -> None:
    reasons = {binding: failure_reason(binding) for binding in Binding}
    assert len(set(reasons.values())) == len(Binding)
    assert reasons[Binding.ON_STARTUP] is Reason.STARTUP_HOOK_FAILED
    assert reasons[Binding.AFTER_DELETE_HELM] is Reason.AFTER_DELETE_HELM_HOOKS_FAILED


def test_contexts_carry_snapshots_for_helm_bindings_only() -> None:
    assert binding_context(Binding.ON_STARTUP) == [{"binding": "onStartup"}]
    assert binding_context(Binding.BEFORE_DELETE_HELM) == [{"binding": "beforeDeleteHelm", "snapshots": {}}]


def test_values_stand_under_the_camel_case_key_beside_global() -> None:
    assert values_file("cert-manager-crd", {"a": 1}, {"zone": "x"}) == {
        "global": {"zone": "x"},
        "certManagerCrd": {"a": 1},
    }
    assert config_values_file("webapp", {}, {}) == {"global": {}, "webapp": {}}
