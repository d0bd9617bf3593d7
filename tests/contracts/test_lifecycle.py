"""The wire: what an older or a newer version wrote is still read, and nothing is lost on the way."""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.json_schema import models_json_schema

from windlass.contracts import catalog, failures, lifecycle, record, steps
from windlass.contracts.base import WireModel
from windlass.contracts.lifecycle import Action, Failure, LifecycleInput, LifecycleState, Limits
from windlass.contracts.objects import ActionRecord, ReleaseStatus, SeenStatus
from windlass.contracts.record import RecordRef
from windlass.contracts.steps import HookRequest, HookResult, Observation, ReleaseRequest, Restored
from windlass.domain.ids import Kind, PackageKey
from windlass.domain.lifecycle.conditions import Condition, Status, Type
from windlass.domain.lifecycle.policy import Cause, Control, Good, Held, Passing, Rejected
from windlass.domain.lifecycle.steps import Desired, Loaded, Progress, Run, Scope, Step, Teardown
from windlass.domain.packages.model import Artifact, Binding, Hook, Source

SNAPSHOT = Path(__file__).parent / "wire.json"
SWITCH = "WINDLASS_ACCEPT_WIRE"

MODELS: dict[str, type[WireModel]] = {
    f"{module.__name__.rpartition('.')[2]}.{name}": model
    for module in (lifecycle, steps, record, failures, catalog)
    for name, model in inspect.getmembers(module, inspect.isclass)
    if issubclass(model, WireModel) and model.__module__ == module.__name__
}

ARTIFACT = Artifact(source=Source(repository="shelf", package="web", version="1.0.0"), digest="sha256:1")
HOOK = Hook(path="hooks/a", orders={Binding.BEFORE_HELM: 1, Binding.AFTER_HELM: 20}, timeout=12.5)
KEY = PackageKey(installation="second", kind=Kind.APPLICATION, namespace="prod", name="web")
REF = RecordRef(name="r", namespace="prod", resource_version="7", digest="d")
GOOD = Good(revision=3, artifact=ARTIFACT, settings="s0", at=5.0)
CONTROL = Control(
    good=(GOOD,),
    rejected=Rejected(source=ARTIFACT.source, settings="s1", step="Load", reason="LoadFailed", message="why", at=6.0),
    target=GOOD,
    held=Held(step="Load", cause=Cause.FAILED, reason="LoadFailed", message="why", at=7.0),
    breakpoints=(Step.UPGRADE_RELEASE,),
    passing=Passing(step="UpgradeRelease", digest="sha256:1", why="ada accepted it"),
)
STATE = LifecycleState(
    desired=Desired(exists=True, uid="u1", generation=3, finalizer=True, source=ARTIFACT.source, settings="s1"),
    progress=Progress(
        owner="u1",
        artifact=ARTIFACT,
        installed="sha256:1",
        loaded=Loaded(artifact=ARTIFACT, hooks=(HOOK,)),
        released=ARTIFACT,
        run=Run(trigger=Scope.SETTINGS, before=1, verify=True),
        teardown=Teardown(before=1, uninstalled=True),
        removing=True,
    ),
    conditions=(Condition(type=Type.READY, status=Status.FALSE, reason="Failed", since=1.5, observed_generation=3),),
    failure=Failure(step="Load", reason="LoadFailed", message="why", attempt=3, at=1.0, next_try=2.5),
    paused=True,
    actions=(ActionRecord.model_validate({"action": "pause", "who": "ada", "at": "2026-01-01T00:00:00Z"}),),
    seen=SeenStatus(uid="u1", generation=3, digest="d"),
    record=REF,
    release=ReleaseStatus(name="prod.web", namespace="prod", revision=2),
    version="1.0.0",
    attributes=("Running", "1.0.0", True),
    control=CONTROL,
)
WHOLE: list[WireModel] = [
    LifecycleInput(key=KEY, limits=Limits(events=30), state=STATE),
    Observation(desired=STATE.desired, seen=STATE.seen, restored=Restored(artifact=ARTIFACT, record=REF)),
    ReleaseRequest(key=KEY, uid="u1", generation=3, artifact=ARTIFACT, record=REF),
    HookRequest(key=KEY, uid="u1", artifact=ARTIFACT, hook=HOOK, binding=Binding.BEFORE_HELM, run_id="x", record=REF),
    HookResult(values="v", duration=0.5),
]


# -- compatibility ---------------------------------------------------------------------------------------------------


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        dropped = {"title", "description"}
        return {k: _plain(v) for k, v in sorted(node.items()) if k not in dropped and not k.startswith("x-")}
    return [_plain(item) for item in node] if isinstance(node, list) else node


def current() -> dict[str, Any]:
    """Every model and dataclass on the wire: property to what it accepts, without what only people read."""
    _, schema = models_json_schema([(model, "validation") for model in MODELS.values()])
    return {
        name: {
            "properties": {key: _plain(value) for key, value in part.get("properties", {}).items()},
            "required": sorted(part.get("required", [])),
            **({"enum": part["enum"]} if "enum" in part else {}),
        }
        for name, part in sorted(schema["$defs"].items())
    }


def broken(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Say what of ``before`` can no longer be read: the wire is only ever added to."""
    found: list[str] = []
    for part, old in before.items():
        new = now.get(part)
        if new is None:
            found.append(f"{part} is gone")
            continue
        found += [f"{part}.{name} is gone" for name in old["properties"].keys() - new["properties"].keys()]
        found += [
            f"{part}.{name} was {json.dumps(old['properties'][name])}, is {json.dumps(new['properties'][name])}"
            for name in old["properties"].keys() & new["properties"].keys()
            if old["properties"][name] != new["properties"][name]
        ]
        found += [f"{part}.{name} has become required" for name in set(new["required"]) - set(old["required"])]
        found += [f"{part} no longer knows {word!r}" for word in set(old.get("enum", [])) - set(new.get("enum", []))]
    return found


def test_the_wire_is_only_ever_added_to() -> None:
    now = current()
    if os.environ.get(SWITCH) == "1":
        SNAPSHOT.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    before = json.loads(SNAPSHOT.read_text())
    changes = broken(before, now)
    assert changes == [], (
        "running lifecycles and recorded histories hold what was there before: add fields with defaults instead of "
        f"changing or dropping some. Before the first release, {SWITCH}=1 accepts the change: {changes}"
    )
    assert now == before, f"new on the wire; run this test once with {SWITCH}=1 and commit {SNAPSHOT.name}"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda part: part["properties"].pop("paused"), "LifecycleState.paused is gone"),
        (lambda part: part["properties"].update(paused={"type": "string"}), "LifecycleState.paused was"),
        (lambda part: part["required"].append("paused"), "LifecycleState.paused has become required"),
    ],
    ids=["dropped", "changed", "required"],
)
def test_a_break_is_named(change: Any, expected: str) -> None:
    now = json.loads(json.dumps(current()))
    change(now["LifecycleState"])
    (said,) = broken(current(), now)
    assert expected in said


def test_an_addition_is_no_break() -> None:
    now = json.loads(json.dumps(current()))
    now["LifecycleState"]["properties"]["news"] = {"default": "", "type": "string"}
    assert broken(current(), now) == []


# -- reading ---------------------------------------------------------------------------------------------------------


def sprinkled(node: Any) -> Any:
    """The document as a newer version would write it: with a field more everywhere but in maps."""
    if isinstance(node, dict):
        maps = set(Binding) & set(node)
        more = {} if maps else {"from_the_future": {"deep": [1]}}
        return {**{key: sprinkled(value) for key, value in node.items()}, **more}
    return [sprinkled(item) for item in node] if isinstance(node, list) else node


@pytest.mark.parametrize("model", WHOLE, ids=lambda model: type(model).__name__)
def test_what_is_written_is_read_back(model: WireModel) -> None:
    assert type(model).model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize("model", WHOLE, ids=lambda model: type(model).__name__)
def test_fields_of_a_newer_version_are_ignored(model: WireModel) -> None:
    newer = json.dumps(sprinkled(json.loads(model.model_dump_json())))
    again = type(model).model_validate_json(newer).model_dump(mode="json")
    for name, value in model.model_dump(mode="json").items():
        # Kubernetes objects keep what they do not know: there the addition is still to be seen.
        if name not in {"seen", "state"}:
            assert again[name] == value


def test_state_of_a_newer_version_keeps_all_that_this_one_knows() -> None:
    newer = LifecycleState.model_validate_json(json.dumps(sprinkled(json.loads(STATE.model_dump_json()))))
    assert newer.progress == STATE.progress
    assert newer.desired == STATE.desired
    assert newer.conditions == STATE.conditions
    assert newer.control == STATE.control
    assert newer.failure == STATE.failure


def test_state_of_an_older_version_takes_the_defaults() -> None:
    assert LifecycleState.model_validate_json("{}") == LifecycleState()


@pytest.mark.parametrize("name", MODELS)
def test_models_cannot_be_changed_in_place(name: str) -> None:
    assert MODELS[name].model_config.get("frozen")


def test_a_refused_input_is_not_shown() -> None:
    with pytest.raises(ValidationError) as refused:
        Action.model_validate({"who": "", "why": "canary-4711" * 1000})
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(("who", "why"), [("", ""), ("a" * 513, ""), ("ada", "w" * 1025)])
def test_actions_say_who_and_are_bounded(who: str, why: str) -> None:
    with pytest.raises(ValidationError):
        Action(who=who, why=why)


# -- dataclasses of the domain travel as they are ----------------------------------------------------------------------

TEXTS = st.text("ab/-", max_size=4)
HOOKS = st.builds(
    Hook,
    path=TEXTS,
    orders=st.dictionaries(st.sampled_from(Binding), st.integers(-5, 5), max_size=3),
    timeout=st.floats(0, 1e6),
)
ARTIFACTS = st.builds(Artifact, source=st.builds(Source, repository=TEXTS, package=TEXTS, version=TEXTS), digest=TEXTS)
PROGRESS = st.builds(
    Progress,
    owner=TEXTS,
    artifact=st.none() | ARTIFACTS,
    loaded=st.none() | st.builds(Loaded, artifact=ARTIFACTS, hooks=st.tuples(HOOKS)),
    released=st.none() | ARTIFACTS,
    startup=st.integers(0, 9),
    active=st.booleans(),
    run=st.builds(Run, trigger=st.sampled_from(Scope), before=st.integers(0, 9), verify=st.booleans()),
    removing=st.booleans(),
    teardown=st.builds(Teardown, before=st.integers(0, 9), uninstalled=st.booleans()),
)


@given(PROGRESS)
def test_progress_survives_the_wire(progress: Progress) -> None:
    state = LifecycleState(progress=progress)
    assert LifecycleState.model_validate_json(state.model_dump_json()).progress == progress


def test_every_field_of_a_domain_class_on_the_wire_has_a_default_or_is_a_name() -> None:
    """A field without a default cannot be added: what was written before does not have it."""
    names = {
        Artifact: {"source", "digest"},
        Source: {"repository", "package", "version"},
        Hook: {"path", "orders"},
        Loaded: {"artifact"},
        Condition: {"type"},
        PackageKey: {"name"},
        Good: {"revision", "artifact", "settings"},
        Rejected: {"source", "settings"},
        Held: {"step", "cause"},
    }
    policy = (Control, Good, Rejected, Held)
    for cls in (Desired, Progress, Run, Teardown, Artifact, Source, Hook, Loaded, Condition, PackageKey, *policy):
        assert is_dataclass(cls)
        schema = TypeAdapter(cls).json_schema()
        assert set(schema.get("required", [])) == names.get(cls, set()), cls.__name__
        assert {field.name for field in fields(cls)} == set(schema["properties"])


def test_kubernetes_models_and_wire_models_are_different_things() -> None:
    assert not issubclass(SeenStatus, WireModel)
    assert issubclass(SeenStatus, BaseModel)
    assert SeenStatus.model_config.get("extra") == "allow"
