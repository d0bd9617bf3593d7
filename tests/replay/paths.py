"""Where histories and the list of paths are kept."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORKFLOWS = HERE.parent.parent / "workflows"
HISTORIES = HERE / "histories"
BASELINE = HERE / "fingerprints.json"
PATHS = HERE / "PATHS"


def listed(file: Path = PATHS) -> list[str]:
    """Return the names in ``file``: one a line, ``#`` starts a comment."""
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [line for line in lines if line]


def recorded(folder: Path = HISTORIES) -> dict[str, dict[str, str]]:
    """Return workflow type -> path name -> digest of every history in ``folder``."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.json")):
        text = path.read_bytes()
        digest = hashlib.sha256(text).hexdigest()[:16]
        found.setdefault(started(json.loads(text))["workflowType"]["name"], {})[path.stem] = digest
    return found


def started(history: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of the event that started the workflow."""
    attributes: dict[str, Any] = history["events"][0]["workflowExecutionStartedEventAttributes"]
    return attributes
