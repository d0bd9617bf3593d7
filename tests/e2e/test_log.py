"""What the log of a healthy installation says: nothing that looks like a fault."""

from __future__ import annotations

import json
from pathlib import Path

from support.event_hooks import Journal, labelled, put, write
from support.installation import Installation, write_greeter

COUNT = 8


async def test_packages_that_come_and_go_leave_no_complaint(installation: Installation, tmp_path: Path) -> None:
    """Removed packages end their workflows while signals and updates may be on their way to them."""
    write_greeter(tmp_path / "packages", "1.0.0")
    journal = Journal(tmp_path)
    write(installation, "following", hook=journal.hook(labelled("following", name="maps")))
    installation.start()
    packages = {f"app-{number}": "greeter" if number % 2 else "following" for number in range(COUNT)}
    for name, package in packages.items():
        await installation.application(name, package, "1.0.0")
    for name in packages:
        await installation.ready(name, "1.0.0")
    await put(installation, "one", "following", x="1")
    await journal.told("Added", "one")
    for number, name in enumerate(packages):
        await put(installation, "one", "following", x=str(number + 2))
        await installation.delete(name)
    for name in packages:
        await installation.gone(name)
    installation.stop()
    assert complaints(installation.log) == []


def complaints(log: Path) -> list[str]:
    """Return what was logged as a warning or worse, and what is no line of ours."""
    found: list[str] = []
    for line in log.read_text().splitlines():
        try:
            level = json.loads(line)["level"]
        except ValueError:
            found.append(line)
        else:
            if level in {"warning", "error", "critical"}:
                found.append(line)
    return found
