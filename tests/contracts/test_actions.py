"""Requests of people: what they mean to a lifecycle, and what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.contracts.actions import ActionRequest, action_of, parse_request
from windlass.contracts.lifecycle import Action, AdoptAction, PauseAction, ResumeAction, RollbackAction
from windlass.domain.ids import Kind, PackageKey

ASKED = 1767225600.0


def request(action: str, detail: str | None = None, /, kind: str = "Application", **spec: Any) -> ActionRequest:
    return parse_request(
        {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "ActionRequest",
            "metadata": {
                "name": "one",
                "namespace": "prod",
                "uid": "u1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "target": {"kind": kind, "name": "web"},
                "action": action,
                "who": "ann",
                **({"detail": detail} if detail is not None else {}),
                **spec,
            },
        }
    )


@pytest.mark.parametrize(
    ("made", "action"),
    [
        (request("retry", reason="why"), Action(who="ann", why="why", uid="u1", asked=ASKED)),
        (request("rollback"), RollbackAction(who="ann", uid="u1", asked=ASKED)),
        (request("rollback", " 3 "), RollbackAction(who="ann", uid="u1", asked=ASKED, to=3)),
        (
            request("pause", "run, afterHelm"),
            PauseAction(who="ann", uid="u1", asked=ASKED, before=("run", "afterHelm")),
        ),
        (request("adopt"), AdoptAction(who="ann", uid="u1", asked=ASKED)),
        (
            request("adopt", "0a1b2c3d4e5f"),
            AdoptAction(who="ann", uid="u1", asked=ASKED, fingerprint="0a1b2c3d4e5f"),
        ),
        (request("resume", "all"), ResumeAction(who="ann", uid="u1", asked=ASKED, everything=True)),
    ],
    ids=lambda one: one.spec.action if isinstance(one, ActionRequest) else "",
)
def test_a_request_is_an_action(made: ActionRequest, action: Action) -> None:
    assert action_of(made) == action


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (request("rollback", "latest"), "a Helm revision such as 3, not 'latest'"),
        (request("rollback", "-1"), "a Helm revision"),
        (request("pause", "lunch"), "'lunch' is none of"),
        (request("resume", "everything"), "empty or 'all'"),
        (request("retry", "x"), "retry takes no spec.detail"),
        (request("approve"), "does not carry out approve"),
        (request("adopt", "it"), "is the fingerprint that the package's condition names"),
        (request("retry", who=None), "spec.who is empty"),
    ],
)
def test_what_makes_no_sense_says_why(made: ActionRequest, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        action_of(made)


def test_a_request_is_about_a_package_beside_it_or_a_module() -> None:
    assert request("retry").key("w") == PackageKey(installation="w", namespace="prod", name="web")
    assert request("retry", kind="Module").key("w") == PackageKey(installation="w", kind=Kind.MODULE, name="web")


@pytest.mark.parametrize(("phase", "answered"), [("Waiting", False), ("Accepted", True), ("Unknown", True)])
def test_a_request_that_waits_is_not_answered(phase: str, answered: bool) -> None:
    made = request("retry").model_dump(mode="json", by_alias=True) | {"status": {"phase": phase}}
    assert parse_request(made).answered is answered
