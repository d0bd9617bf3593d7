"""Finds out whether a chart carries Helm hooks: such charts take another, slower way through Helm."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import IO, Final

from windlass.adapters.packages.format.archive import read_archive
from windlass.adapters.packages.format.digest import files_of
from windlass.adapters.packages.format.entries import UNBOUNDED, Limits
from windlass.domain.errors import Actor, PermanentError, Reason

_MENTION: Final = re.compile(rb"helm\.sh/hook(?![-\w/])")
"""Any mention of the annotation, in whatever template code: too many charts on the slow way is the safe mistake."""

_TEST: Final = re.compile(rb"""helm\.sh/hook["']?\s*:\s*["']?test(?:-success|-failure)?["']?[ \t]*(?:\r?\n|$)""")
"""Tests run on `helm test` only; every chart that `helm create` made has one."""

_WHERE: Final = frozenset({"templates", "charts", "crds", "openapi", "values.yaml"})
"""Top entries of a package whose text can reach a manifest."""

_ARCHIVES: Final = (".tgz", ".tar.gz")


def has_helm_hooks(root: Path) -> bool:
    """Say whether templates, CRDs, subcharts or default values mention a Helm hook other than a test.

    Raises:
        PermanentError: LOAD_FAILED, a file in ``charts/`` is no chart archive.
    """
    for file in files_of(root, UNBOUNDED):
        top = file.relative.partition("/")[0]
        if top not in _WHERE:
            continue
        if top == "charts" and file.relative.endswith(_ARCHIVES):
            if _archive_has_hooks(file.path, file.relative):
                return True
        elif _mentions(file.path.read_bytes()):
            return True
    return False


def _mentions(text: bytes) -> bool:
    return len(_MENTION.findall(text)) > len(_TEST.findall(text))


def _archive_has_hooks(archive: Path, relative: str) -> bool:
    found = False

    def look(path: PurePosixPath, executable: bool, content: IO[bytes]) -> None:  # noqa: FBT001, ARG001 - shape of a `Sink`
        nonlocal found
        text = content.read()
        # A chart archive inside a chart archive is not opened: the slow way suits every chart.
        found = found or path.name.endswith(_ARCHIVES) or _mentions(text)

    try:
        read_archive(archive, Limits(), look)
    except PermanentError as error:
        raise PermanentError(
            Reason.LOAD_FAILED,
            f"{relative}: {error.message}",
            hint="package the subchart again",
            actor=Actor.AUTHOR,
        ) from error
    return found
