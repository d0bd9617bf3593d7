"""What a process that was killed had under way is counted by the next one, and left undone after the third time."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from activities.fakes import KEY, Bench

from windlass.adapters.processes.journal import SLOTS, Journal
from windlass.contracts.record import PackageRecord
from windlass.domain.faults import Fault
from windlass.domain.ids import PackageKey
from windlass.domain.packages.model import Artifact, Source
from windlass.observers.border import Border
from windlass.observers.suspects import PackageSuspects
from windlass.ports.suspects import STEP

DRIFT = "drift"


class Told:
    """What the border says of faults."""

    def __init__(self) -> None:
        self.causes: list[str] = []

    def failed(self, key: PackageKey, run: object, fault: Fault) -> None:
        assert (key, run) == (KEY, fault.part)
        self.causes.append(fault.cause)

    def works(self, key: PackageKey, run: object) -> None: ...

    def ended(self, key: PackageKey, run: object) -> None: ...


KILLED = """
import os, signal, sys
from pathlib import Path
from windlass.adapters.processes.journal import Journal
journal = Journal(Path(sys.argv[1]))
with journal.noted("prod.done", "drift"):
    pass
with journal.noted(sys.argv[2], sys.argv[3]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in-progress" / "worker"


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.records.put(uid="u1")
    return bench


def killed(path: Path, part: str = DRIFT) -> None:
    """Let a process be killed while it works for the package."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), KEY.package_id, part], check=False)
    assert ended.returncode == -signal.SIGKILL


async def started(path: Path, bench: Bench) -> PackageSuspects:
    journal = Journal(path)
    found = PackageSuspects(journal, records=bench.records, contents=bench.contents, installation=KEY.installation)
    journal.close()
    await found.settle()
    return found


def counts(bench: Bench) -> dict[str, int]:
    return bench.records.record.faults


def test_a_process_that_ends_in_order_leaves_nothing(path: Path) -> None:
    journal = Journal(path)
    with journal.noted("a", DRIFT), journal.noted("b", STEP):
        pass
    journal.close()
    assert Journal(path).left == ()


def test_what_was_under_way_is_found_once(path: Path) -> None:
    journal = Journal(path)
    with journal.noted("a", DRIFT), journal.noted("b", STEP):
        assert set(Journal(path).left) == {("a", DRIFT), ("b", STEP)}
        assert Journal(path).left == ()
    journal.close()


def test_more_entries_than_slots_are_not_noted_and_done(path: Path) -> None:
    journal = Journal(path)
    with ExitStack() as stack:
        for number in range(SLOTS + 10):
            stack.enter_context(journal.noted(f"p{number}", DRIFT))
        assert len(Journal(path).left) == SLOTS
    journal.close()


@pytest.mark.parametrize("garbage", [b"x" * 5000, b'["a"]\n', b"[1, 2]\n", b'["a", "b"', b"\xff\xfe\n"])
def test_garbage_is_passed_over(path: Path, garbage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(garbage)
    assert Journal(path).left == ()
    assert path.stat().st_size == 0


async def test_three_kills_in_a_row_quarantine_the_part(path: Path, bench: Bench) -> None:
    for times in (1, 2, 3):
        killed(path)
        suspects = await started(path, bench)
        assert counts(bench) == {DRIFT: times}
        assert await suspects.quarantined(KEY, DRIFT) == (times == 3)
    assert not await suspects.quarantined(KEY, "informers")
    assert await (await started(path, bench)).quarantined(KEY, DRIFT), "also for a process that was started in order"


async def test_the_border_leaves_a_quarantined_part_undone_and_says_so(path: Path, bench: Bench) -> None:
    told = Told()
    done: list[str] = []

    async def work() -> None:
        done.append("compared")

    for _ in range(3):
        killed(path)
        suspects = await started(path, bench)
    journal = Journal(path)
    suspects = PackageSuspects(journal, records=bench.records, contents=bench.contents, installation=KEY.installation)
    await suspects.settle()
    border = Border(told, lambda _: None, suspects)
    assert await border.once(KEY, "informers", work)
    assert not await border.once(KEY, DRIFT, work)
    assert done == ["compared"]
    assert "3 workers in a row" in told.causes[-1]
    journal.close()


async def test_work_that_is_done_is_no_suspect(path: Path, bench: Bench) -> None:
    killed(path)
    suspects = await started(path, bench)
    await suspects.worked(KEY, DRIFT)
    assert counts(bench) == {}
    saved = bench.records.record
    await suspects.worked(KEY, DRIFT)
    assert bench.records.record is saved, "the ordinary case writes nothing"


async def test_other_content_ends_a_quarantine(path: Path, bench: Bench) -> None:
    for _ in range(3):
        killed(path)
        suspects = await started(path, bench)
    content = Artifact(source=Source(repository="shelf", package="web", version="2"), digest="sha256:2")
    await bench.contents.update(KEY, "u1", None, lambda record: record.with_artifact(content))
    assert not await suspects.quarantined(KEY, DRIFT)


async def test_a_step_is_suspected_and_not_counted(path: Path, bench: Bench) -> None:
    killed(path, STEP)
    suspects = await started(path, bench)
    assert suspects.suspected(KEY)
    assert counts(bench) == {}
    await suspects.worked(KEY, STEP)
    assert not suspects.suspected(KEY)


async def test_a_package_without_a_record_is_passed_over(path: Path) -> None:
    bench = Bench()
    killed(path)
    suspects = await started(path, bench)
    assert not await suspects.quarantined(KEY, DRIFT)
    assert PackageRecord(uid="u1").faults == {}
