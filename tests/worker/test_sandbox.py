"""The sandbox stands on private names of the SDK, and does without them where they have changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox import _importer as importer
from temporalio.worker.workflow_sandbox import _runner as runner

from windlass.worker import shared_sandbox
from windlass.worker.sandbox import PASSED_THROUGH, workflow_runner
from windlass.worker.shared_sandbox import SharingRunner, differences


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let the module with the private names be imported anew, and be the old one afterwards."""
    monkeypatch.delitem(sys.modules, shared_sandbox.__name__)
    monkeypatch.delattr("windlass.worker.shared_sandbox")
    yield monkeypatch
    sys.modules[shared_sandbox.__name__] = shared_sandbox


def falls_back() -> str:
    """Return the differences that are told of when the SDK's own runner is taken."""
    with capture_logs() as logs:
        found = workflow_runner()
    assert type(found) is SandboxedWorkflowRunner
    assert set(PASSED_THROUGH) <= found.restrictions.passthrough_modules
    (line,) = logs
    assert line["log_level"] == "warning"
    return str(line["differences"])


def test_this_sdk_is_known() -> None:
    assert list(differences()) == []
    assert isinstance(workflow_runner(), SharingRunner)


def test_a_module_that_is_gone(anew: pytest.MonkeyPatch) -> None:
    anew.setitem(sys.modules, "temporalio.worker.workflow_sandbox._importer", None)
    assert "ModuleNotFoundError" in falls_back()


def test_a_class_that_is_gone(anew: pytest.MonkeyPatch) -> None:
    anew.delattr(runner, "_Instance")
    assert "_Instance" in falls_back()


def test_a_constructor_that_takes_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(self: object, restrictions: object) -> None: ...

    monkeypatch.setattr(importer.Importer, "__init__", other)
    assert "Importer takes" in falls_back()


def test_an_instance_that_sets_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(self: object, *arguments: object) -> None: ...

    monkeypatch.setattr(runner._Instance, "__init__", other)
    assert "does not set" in falls_back()


def test_a_method_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(runner._Instance, "_create_instance")
    assert "no _create_instance" in falls_back()
