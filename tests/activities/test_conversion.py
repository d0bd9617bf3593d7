"""Settings of older shapes, with real jq."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from windlass.activities.conversion import check_conversions, converted
from windlass.adapters.jq.client import JqClient
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.packages.model import Conversion

STEPS = (
    Conversion(version=2, programs=(".replicas = .count", "del(.count)")),
    Conversion(version=3, programs=('.mode = (if .fast then "fast" else "slow" end) | del(.fast)',)),
)


@pytest.fixture(scope="module")
async def jq() -> AsyncIterator[JqClient]:
    async with JqClient(size=1) as client:
        yield client


@pytest.mark.parametrize(
    ("settings", "version", "newest"),
    [
        ({"count": 2, "fast": True}, 1, {"replicas": 2, "mode": "fast"}),
        ({"replicas": 2, "fast": False}, 2, {"replicas": 2, "mode": "slow"}),
        ({"replicas": 2, "mode": "slow"}, 3, {"replicas": 2, "mode": "slow"}),
        ({"count": 2}, None, {"count": 2}),
        ({"count": 2**53 + 1, "fast": True}, 1, {"replicas": 2**53, "mode": "fast"}),
        ({"replicas": 2**53 + 1, "fast": True}, 2, {"replicas": 2**53 + 1, "mode": "fast"}),
    ],
)
async def test_settings_are_brought_to_the_newest_version(
    jq: JqClient, settings: dict[str, object], version: int | None, newest: dict[str, object]
) -> None:
    assert await converted(jq, STEPS, settings, version) == newest


async def test_a_version_that_is_not_known_is_refused(jq: JqClient) -> None:
    with pytest.raises(PermanentError, match="settingsVersion: 4 is not known, this package's newest is 3") as caught:
        await converted(jq, STEPS, {}, 4)
    assert (caught.value.reason, caught.value.actor) == (Reason.VALIDATION_FAILED, Actor.USER)
    assert await converted(jq, (), {"a": 1}, 1) == {"a": 1}
    with pytest.raises(PermanentError, match="this package's newest is 1"):
        await converted(jq, (), {}, 2)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (".password | tonumber", "v2.yaml: jq filter '.password | tonumber': fails on the value"),
        (".password", "v2.yaml: a program gives 1 results or no object"),
        ("empty", "v2.yaml: a program gives 0 results or no object"),
    ],
)
async def test_a_program_that_fails_is_named_without_the_settings(jq: JqClient, program: str, says: str) -> None:
    with pytest.raises(PermanentError) as caught:
        await converted(jq, (Conversion(version=2, programs=(program,)),), {"password": "hunter2"}, 1)
    assert says in caught.value.message
    assert (caught.value.reason, caught.value.actor) == (Reason.VALIDATION_FAILED, Actor.AUTHOR)
    assert "hunter2" not in str(caught.value)


async def test_programs_are_compiled_when_the_package_is_loaded(jq: JqClient) -> None:
    await check_conversions(jq, STEPS)
    with pytest.raises(PermanentError, match=r"openapi/conversions/v2\.yaml: jq filter '\.a \|': not valid"):
        await check_conversions(jq, (Conversion(version=2, programs=(".", ".a |")),))
