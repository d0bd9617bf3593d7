"""What the workers' inspect endpoint is asked, and how it names its parts (docs/adr/0024)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints

from windlass.contracts.base import WireModel
from windlass.domain.ids import Kind, PackageKey

ROOT: Final = "/inspect/v1"
READY: Final = f"{ROOT}/ready"
"""Answers without a login; for probes and `windlass doctor`."""

TICKET_HEADER: Final = "X-Windlass-Ticket"
"""``<name of the ActionRequest>/<secret>``: proves that the caller created that request."""

CALLER_HEADER: Final = "X-Windlass-Caller"
"""Who asks, as one worker tells another. Ignored unless the connection has a certificate of a worker."""

MEMBER_HEADER: Final = "X-Windlass-Member"
"""In answers: the worker that answered."""

CHANGE: Final = "change:"
"""Start of the detail of a ticket that may also ask what another version or other settings would do."""

SERVER_DOMAIN: Final = "inspect.windlass.internal"
"""Workers' certificates are for ``<member>.<this>``, a name that is never looked up."""

MODULES: Final = "-"
"""In paths, where a namespace is expected and a Module has none."""

MAX_QUESTION: Final = 1024 * 1024
"""Bytes of a question: settings of one package. An object of the API server has at most 1.5 MiB."""

MAX_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of an answer. A release record has at most 1 MiB compressed, which is some 20 MiB of manifests."""


class View(StrEnum):
    """What can be asked about a package."""

    QUEUES = "queues"
    DUMP = "dump"
    HISTORY = "history"
    VALUES = "values"
    RENDER = "render"
    DIFF = "diff"
    TREE = "tree"


class Question(WireModel):
    """Body of a request.

    Attributes:
        version: render: as if this version were wanted.
        settings: render: laid over the object's settings.
        against: diff: what to compare with.
        oldest: history: leave out what was before.
    """

    # Whoever asks for something that this version does not know is told so, instead of getting another answer.
    model_config = ConfigDict(extra="forbid")

    version: Annotated[str, StringConstraints(max_length=256)] = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    against: Literal["live", "release"] = "live"
    oldest: AwareDatetime | None = None

    @property
    def hypothetical(self) -> bool:
        """Whether it asks about another version or other settings, which takes the right to update the package."""
        return bool(self.version or self.settings)


def path_of(key: PackageKey, view: View) -> str:
    """Return the path of one view of a package."""
    return f"{ROOT}/{key.kind.value}/{key.namespace or MODULES}/{key.name}/{view.value}"


def server_name(member: str) -> str:
    """Return the name that a worker's certificate is for."""
    return f"{member}.{SERVER_DOMAIN}"


def key_of(installation: str, kind: str, namespace: str, name: str) -> PackageKey | None:
    """Return which package a path is about; None if no package can be named so."""
    if kind not in set(Kind) or not name or (namespace == MODULES) != (kind == Kind.MODULE):
        return None
    where = "" if namespace == MODULES else namespace
    return PackageKey(installation=installation, kind=Kind(kind), namespace=where, name=name)
