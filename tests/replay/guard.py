"""Fails when workflow code may no longer replay what runs, unless a patch marker or a new history answers for it.

``python -m replay.guard`` (with ``PYTHONPATH=tests``) says what changed; ``--accept`` writes the new baseline, and
refuses while neither evidence is there.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from replay.fingerprint import Fingerprint, fingerprints
from replay.paths import BASELINE, WORKFLOWS, recorded

_ADVICE = """
Workflows that run now would replay their history with this code and get stuck if it asks for other commands.
Do one of these:

  1. Workflows in the field take this path: keep the old commands for them.
         if workflow.patched("a-name-for-this-change"):
             ... the new commands ...
         else:
             ... the old commands ...
     (Entities continue-as-new when idle: one release later use `deprecate_patch`, one more later drop it.)

  2. No released version took this path, or the change only adds to where no history has been: record the paths it
     belongs to again, and add new paths to tests/replay/PATHS.
         WINDLASS_RECORD_HISTORIES=1 .venv/bin/pytest tests/e2e

Then accept the new outline and commit tests/replay with the change:

         PYTHONPATH=tests .venv/bin/python -m replay.guard --accept
"""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What was last accepted of one workflow type; ``histories`` maps path names to digests."""

    outline: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    histories: Mapping[str, str] = field(default_factory=dict[str, str])


def load(file: Path) -> dict[str, Baseline]:
    """Read a baseline file; none means that nothing was accepted yet."""
    if not file.exists():
        return {}
    return {
        name: Baseline(outline=tuple(kept["outline"]), patches=tuple(kept["patches"]), histories=kept["histories"])
        for name, kept in json.loads(file.read_text()).items()
    }


def changes(code: Mapping[str, Fingerprint], accepted: Mapping[str, Baseline]) -> dict[str, str]:
    """Return workflow type -> unified diff for every type whose outline is not the accepted one."""
    found: dict[str, str] = {}
    for name in sorted(code.keys() | accepted.keys()):
        before = accepted[name].outline if name in accepted else ()
        after = code[name].outline if name in code else ()
        if before != after:
            diff = difflib.unified_diff(before, after, "accepted", "this code", lineterm="")
            found[name] = "\n".join(f"    {line}" for line in diff)
    return found


def report(found: Mapping[str, str]) -> str:
    """Tell an author what changed and what to do about it."""
    heads = [f"The commands of workflow {name} changed:\n{diff}" for name, diff in found.items()]
    return "\n\n".join([*heads, _ADVICE.strip()])


def unanswered(
    code: Mapping[str, Fingerprint], accepted: Mapping[str, Baseline], histories: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Return the changed types that have neither a new patch marker nor a new or re-recorded history."""
    missing: list[str] = []
    for name in changes(code, accepted):
        if name not in code:
            continue  # the type is gone, and so must be its histories: `test_replay` sees to that
        before = accepted.get(name, Baseline())
        # A marker protects what runs already; a type that is new has to show that it replays at all.
        new_patch = name in accepted and set(code[name].patches) - set(before.patches)
        new_history = set(histories.get(name, {}).items()) - set(before.histories.items())
        if not new_patch and not new_history:
            missing.append(name)
    return missing


def document(code: Mapping[str, Fingerprint], histories: Mapping[str, Mapping[str, str]]) -> str:
    """Return the baseline file for this code."""
    kept = {
        name: {
            "outline": list(found.outline),
            "patches": list(found.patches),
            "histories": dict(histories.get(name, {})),
        }
        for name, found in code.items()
    }
    return json.dumps(kept, indent=2) + "\n"


def main(arguments: list[str], *, workflows: Path = WORKFLOWS, baseline: Path = BASELINE) -> int:
    """Report, or accept; returns the exit status."""
    code, accepted, histories = fingerprints(workflows), load(baseline), recorded()
    found = changes(code, accepted)
    if arguments != ["--accept"]:
        sys.stdout.write(report(found) + "\n" if found else "no workflow changed its commands\n")
        return 1 if found else 0
    if missing := unanswered(code, accepted, histories):
        sys.stderr.write(
            f"{report({name: found[name] for name in missing})}\n\n"
            f"Not accepted: {', '.join(missing)} has neither a new patch marker nor a new history.\n"
        )
        return 1
    baseline.write_text(document(code, histories))
    sys.stdout.write(f"accepted: {', '.join(found) or 'no change of commands'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
