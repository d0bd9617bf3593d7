"""``windlass dump``: the shape programs rely on, and nothing secret in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from windlass.contracts.lifecycle import DumpView, Failure, LifecycleState, QueuedStep
from windlass.contracts.objects import Application, ReleaseStatus
from windlass.domain.ids import PackageKey
from windlass.domain.lifecycle import conditions as cond
from windlass.domain.lifecycle.steps import Progress
from windlass.domain.packages.model import Artifact, Source
from windlass.runtime.dumps import package_dump, queue_dump

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def view(state: LifecycleState) -> DumpView:
    return DumpView(key=PackageKey(namespace="prod", name="billing"), state=state, running="", history_events=7)


def application() -> Application:
    package = {"repository": "corp", "name": "billing", "version": "1.4.2"}
    settings = {"password": "canary"}
    return Application.model_validate(
        {
            "metadata": {"name": "billing", "namespace": "prod"},
            "spec": {"package": package, "settings": settings},
            "status": {"progress": {"completed": 3, "remaining": 2, "waitingFor": ["Deployment/x: 0 of 1"]}},
        }
    )


def test_one_package() -> None:
    source = Source(repository="corp", package="billing", version="1.4.2")
    state = LifecycleState(
        version="1.4.2",
        conditions=cond.initial(0.0)[:1],
        progress=Progress(artifact=Artifact(source=source, digest="sha256:aa"), settings="bb"),
        release=ReleaseStatus(name="prod.billing", namespace="prod", revision=2),
        failure=Failure(step="Load", reason="LoadFailed", message="m"),
    )
    dumped = package_dump(view(state), application())
    assert dumped["status"] == {
        "version": "1.4.2",
        "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Pending"}],
        "tracking": {"completed": 3, "remaining": 2, "waitingFor": ["Deployment/x: 0 of 1"]},
    }
    assert (dumped["name"], dumped["namespace"], dumped["running"]) == ("billing", "prod", False)
    assert dumped["definition"] == {"name": "billing", "version": "1.4.2"}
    assert dumped["repository"] == {"name": "corp"}
    assert dumped["digests"] == {"content": "sha256:aa", "settings": "bb"}
    assert dumped["release"]["revision"] == 2
    assert dumped["failure"]["step"] == "Load"
    assert "canary" not in repr(dumped)


def test_a_package_that_was_never_downloaded_is_named_by_what_it_wants() -> None:
    dumped = package_dump(view(LifecycleState()), application())
    assert dumped["definition"] == {"name": "billing", "version": "1.4.2"}
    assert dumped["hooks"] == []
    assert "release" not in dumped


def test_a_queue() -> None:
    failed = QueuedStep(
        index=1, name="Load", scope="root", attempt=2, error="LoadFailed: x", next_try=NOW + timedelta(seconds=3.1)
    )
    dumped = queue_dump([failed, QueuedStep(index=2, name="Startup", scope="run")], NOW)
    assert dumped == {
        "length": 2,
        "tasks": [
            {
                "index": 1,
                "name": "Load",
                "scope": "root",
                "attempt": 2,
                "error": "LoadFailed: x",
                "next_retry": "3.1s",
            },
            {"index": 2, "name": "Startup", "scope": "run"},
        ],
    }
