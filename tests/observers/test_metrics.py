"""What the worker counts of its steps."""

from __future__ import annotations

from typing import Any, override

import pytest
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from windlass.contracts.steps import DriftResult, SettingsRequest, SettingsResult
from windlass.domain.drift.comparison import Change, Difference
from windlass.domain.ids import PackageKey
from windlass.domain.packages.model import Artifact, Source
from windlass.observers.metrics import Metrics, StepMetrics

ARTIFACT = Artifact(source=Source(repository="shelf", package="web", version="1.0.0"), digest="sha256:1")
SETTINGS = SettingsResult(settings="a", values="b")


class Ending(ActivityInboundInterceptor):
    """An activity that ends with a given result."""

    def __init__(self, result: Any) -> None:
        self._result = result

    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        return self._result


async def counted(request: Any, result: Any) -> dict[str, float]:
    metrics = Metrics("test")
    measured = StepMetrics(metrics).intercept_activity(Ending(result))
    given = ExecuteActivityInput(fn=lambda: None, args=[request], executor=None, headers={})
    assert await ActivityEnvironment().run(measured.execute_activity, given) is result
    names = ("windlass_rollbacks_total", "windlass_drift_corrections_total")
    return {name: metrics.registry.get_sample_value(name) or 0.0 for name in names}


@pytest.mark.parametrize(("restore", "rollbacks"), [("", 0.0), ("mark", 1.0)])
async def test_a_release_that_is_brought_back_is_a_rollback(restore: str, rollbacks: float) -> None:
    key = PackageKey(namespace="prod", name="web")
    request = SettingsRequest(key=key, uid="1", artifact=ARTIFACT, restore=restore)
    found = await counted(request, SETTINGS)
    assert found == {"windlass_rollbacks_total": rollbacks, "windlass_drift_corrections_total": 0.0}


async def test_every_difference_that_is_put_right_counts() -> None:
    one = Difference(kind="ConfigMap", namespace="prod", name="a", change=Change.ABSENT)
    found = await counted(None, DriftResult(differences=(one,), corrected=(one, one)))
    assert found == {"windlass_rollbacks_total": 0.0, "windlass_drift_corrections_total": 2.0}
