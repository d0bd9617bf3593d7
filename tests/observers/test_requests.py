"""The watcher's way with ActionRequests: what it refuses, what waits, what is swept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from support.fake_kube import FakeKube
from support.waiting import eventually
from windlass.contracts.actions import ActionRequest
from windlass.contracts.lifecycle import Action, ActionResult
from windlass.domain.errors import PermanentError, Reason, TransientError, WindlassError
from windlass.domain.ids import API_VERSION, PackageKey
from windlass.observers.border import Border
from windlass.observers.quarantine import Quarantine
from windlass.observers.watcher.requests import TURNS, RequestWatcher
from windlass.ports.kube import Object, ObjectRef
from windlass.runtime.packages import PackageLifecycles

ADMISSION = "admissionregistration.k8s.io/v1"
DAY = timedelta(days=1)


def stamp(days: float) -> str:
    """Return when it was so many days ago."""
    return (datetime.now(UTC) - days * DAY).strftime("%Y-%m-%dT%H:%M:%SZ")


def put(kube: FakeKube, obj: Object) -> None:
    """Put an object with a creation timestamp of its own: only what is there already keeps the one it is given."""
    kube.put(obj)
    kube.put(obj)


@dataclass
class Lifecycles:
    """Answers as it is told to; the last answer stays."""

    answers: list[ActionResult | WindlassError] = field(
        default_factory=lambda: [ActionResult(accepted=True, phase="Running", step="Idle", message="done")]
    )
    sent: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    async def carry_out(self, key: PackageKey, name: str, action: Action) -> ActionResult:
        self.sent.append((key.package_id, name, action.uid))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, WindlassError):
            raise answer
        return answer

    async def quarantined(self, *_: object) -> bool:
        return True


@dataclass
class Slow(Lifecycles):
    """Answers nothing before it may go on, and counts who waits at the same time."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    now: int = 0
    most: int = 0

    async def carry_out(self, key: PackageKey, name: str, action: Action) -> ActionResult:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go_on.wait()
        self.now -= 1
        return await super().carry_out(key, name, action)


def world() -> FakeKube:
    """A cluster with an Application of three days, and policies of five."""
    kube = FakeKube()
    kube.serve(API_VERSION, "ActionRequest", namespaced=True)
    for kind, spec in (
        ("ValidatingAdmissionPolicy", {"failurePolicy": "Fail"}),
        ("ValidatingAdmissionPolicyBinding", {"policyName": "windlass-actions", "validationActions": ["Deny"]}),
    ):
        kube.serve(ADMISSION, kind, namespaced=False)
        metadata = {"name": "windlass-actions", "creationTimestamp": stamp(5)}
        put(kube, {"apiVersion": ADMISSION, "kind": kind, "metadata": metadata, "spec": spec})
    put(
        kube,
        {
            "apiVersion": API_VERSION,
            "kind": "Application",
            "metadata": {"name": "web", "namespace": "prod", "creationTimestamp": stamp(3)},
            "spec": {"package": {"repository": "r", "name": "web", "version": "1.0.0"}},
        },
    )
    return kube


def asked(kube: FakeKube, name: str, days: float = 1, **fields: Any) -> ObjectRef:
    """Put a request that was created so many days ago."""
    put(
        kube,
        {
            "apiVersion": API_VERSION,
            "kind": "ActionRequest",
            "metadata": {"name": name, "namespace": "prod", "uid": f"u-{name}", "creationTimestamp": stamp(days)},
            "spec": {"target": {"kind": "Application", "name": "web"}, "action": "retry", "who": "ann"},
            **fields,
        },
    )
    return ObjectRef(api_version=API_VERSION, kind="ActionRequest", namespace="prod", name=name)


@asynccontextmanager
async def watching(kube: FakeKube, lifecycles: Lifecycles, keep: timedelta = 7 * DAY) -> AsyncIterator[None]:
    told = cast("PackageLifecycles", lifecycles)
    border = Border(Quarantine(told, "watcher"), lambda _: None)
    watcher = RequestWatcher(kube=kube, lifecycles=told, installation="windlass", keep=keep, border=border)
    running = asyncio.create_task(watcher.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def status(kube: FakeKube, ref: ObjectRef, wanted: Callable[[Object], object]) -> Object:
    """Wait for a status."""

    async def reached() -> Object | None:
        found = ((await kube.get(ref)) or {}).get("status") or {}
        return found if wanted(found) else None

    return await eventually(reached, what="a status")  # type: ignore[return-value]


def answered(found: Object) -> bool:
    return found.get("phase") in {"Accepted", "Refused", "Unknown"}


async def test_a_request_is_passed_on_and_answered() -> None:
    kube, lifecycles = world(), Lifecycles()
    ref = asked(kube, "one")
    async with watching(kube, lifecycles):
        found = await status(kube, ref, answered)
    assert (found["phase"], found["accepted"], found["message"]) == (
        "Accepted",
        True,
        "done (phase Running, step Idle)",
    )
    assert lifecycles.sent == [("prod.web", "retry", "u-one")]


async def test_one_namespace_has_a_bounded_number_of_turns() -> None:
    kube, lifecycles = world(), Slow()
    for number in range(3 * TURNS):
        package = {"package": {"repository": "r", "name": "web", "version": "1.0.0"}}
        metadata = {"name": f"web-{number}", "namespace": "prod", "creationTimestamp": stamp(3)}
        put(kube, {"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata, "spec": package})
        target = {"kind": "Application", "name": f"web-{number}"}
        asked(kube, f"one-{number}", spec={"target": target, "action": "retry", "who": "ann"})
    async with watching(kube, lifecycles):
        await eventually(lambda: lifecycles.most == TURNS, what="all turns are taken")
        lifecycles.go_on.set()
        await eventually(lambda: len(lifecycles.sent) == 3 * TURNS, what="all are passed on")
    assert lifecycles.most == TURNS


async def test_many_requests_about_one_package_are_not_looked_through_for_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kube, lifecycles = world(), Lifecycles()
    looks: list[str] = []
    key = ActionRequest.key

    def counted(request: ActionRequest, installation: str) -> PackageKey:
        looks.append(request.metadata.uid)
        return key(request, installation)

    monkeypatch.setattr(ActionRequest, "key", counted)
    refs = [asked(kube, f"many-{number}") for number in range(500)]
    async with watching(kube, lifecycles):
        for ref in refs:
            await status(kube, ref, answered)
    assert len(lifecycles.sent) == len(refs)
    assert len(looks) <= 3 * len(refs), "each is looked at when it comes, is waited on and is answered"


async def test_requests_about_one_package_go_in_the_order_of_their_creation() -> None:
    kube, lifecycles = world(), Lifecycles()
    refs = [asked(kube, name, days) for name, days in (("c", 0.5), ("a", 1), ("b", 0.7))]
    async with watching(kube, lifecycles):
        for ref in refs:
            await status(kube, ref, answered)
    assert [uid for _, _, uid in lifecycles.sent] == ["u-a", "u-b", "u-c"]


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (6, "it was created before the policy windlass-actions acted"),
        (4, "it was created before this Application web in namespace prod: it was about another one"),
    ],
)
async def test_what_is_too_old_is_refused(days: float, said: str) -> None:
    kube, lifecycles = world(), Lifecycles()
    ref = asked(kube, "one", days)
    async with watching(kube, lifecycles):
        found = await status(kube, ref, answered)
    assert found["phase"] == "Refused"
    assert found["message"].startswith(said)
    assert lifecycles.sent == []


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("ValidatingAdmissionPolicy", {"failurePolicy": "Ignore"}, "ignores failures"),
        (
            "ValidatingAdmissionPolicyBinding",
            {"policyName": "windlass-actions", "validationActions": ["Warn"]},
            "does not deny",
        ),
        ("ValidatingAdmissionPolicyBinding", {"policyName": "x", "validationActions": ["Deny"]}, "does not deny"),
    ],
)
async def test_a_policy_that_lets_everything_pass_counts_as_missing(kind: str, spec: Object, said: str) -> None:
    kube, lifecycles = world(), Lifecycles()
    ref = ObjectRef(api_version=ADMISSION, kind=kind, name="windlass-actions")
    found = await kube.get(ref)
    assert found is not None
    await kube.replace({**found, "spec": spec})
    request = asked(kube, "one")
    async with watching(kube, lifecycles):
        answer = await status(kube, request, answered)
    assert answer["phase"] == "Refused"
    assert said in answer["message"]


@pytest.mark.parametrize(
    "error",
    [
        TransientError(Reason.API_UNAVAILABLE, "Temporal does not answer", hint="look at its log"),
        PermanentError(Reason.PACKAGE_NOT_FOUND, "there is no running lifecycle"),
    ],
)
async def test_what_cannot_be_passed_on_waits_and_says_so(error: WindlassError) -> None:
    kube, lifecycles = world(), Lifecycles()
    lifecycles.answers.insert(0, error)
    ref = asked(kube, "one")
    async with watching(kube, lifecycles):
        waits = await status(kube, ref, lambda found: found.get("phase") == "Waiting")
        assert error.message in waits["message"]
        assert "accepted" not in waits
        assert (await status(kube, ref, answered))["phase"] == "Accepted"


async def test_answered_requests_are_swept_and_others_are_not() -> None:
    kube, lifecycles = world(), Lifecycles([TransientError(Reason.API_UNAVAILABLE, "away")])
    old = asked(kube, "old", 2, status={"phase": "Refused", "accepted": False, "at": stamp(1)})
    new = asked(kube, "new", 2, status={"phase": "Refused", "accepted": False, "at": stamp(-1)})
    waiting = asked(kube, "waiting", 2)
    async with watching(kube, lifecycles, keep=timedelta(milliseconds=20)):

        async def gone() -> bool:
            return await kube.get(old) is None

        await eventually(gone, what="the old one is gone")
    assert await kube.get(new) is not None
    assert await kube.get(waiting) is not None
    assert lifecycles.sent[0][2] == "u-waiting", "what is answered is not passed on again"
