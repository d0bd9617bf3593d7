"""The Kubernetes object ``ActionRequest``: what a person asks of a package's lifecycle, and what came of it.

It is the way in for the command line, for pages and for ``kubectl``. Admission policies (``deploy/policies``) decide
who may create one and fill in ``spec.who``; the watcher passes it on to the lifecycle (docs/adr/0023).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.lifecycle import Action, PauseAction, ResumeAction, RollbackAction, Who, Why
from windlass.contracts.objects import KubeObject
from windlass.contracts.schema_rules import DNS_SUBDOMAIN_PATTERN
from windlass.domain.ids import Kind, PackageKey
from windlass.domain.lifecycle.policy import BREAKABLE, breakpoint_of

type ActionName = Literal["retry", "skip", "cancel", "rollback", "pause", "resume", "adopt", "approve"]
"""The verbs of the policy windlass-actions; `action_of` says which of them this version carries out."""

type RequestPhase = Literal["Waiting", "Accepted", "Refused", "Unknown"]

_REVISION: Final = re.compile(r"[0-9]{1,9}")
_ALL: Final = "all"


class ActionTarget(KubeModel):
    """The package that a request is about: in the request's namespace, or a Module."""

    kind: Literal["Application", "Module"] = Field(description="Application or Module.")
    name: Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN_PATTERN, min_length=1, max_length=253)] = Field(
        description="Name of the object."
    )


class ActionRequestSpec(KubeModel):
    """What is asked for. It cannot change."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "spec cannot change: create another ActionRequest"}
            ]
        }
    )

    target: ActionTarget
    action: ActionName = Field(description="What the lifecycle is to do; also the verb that RBAC is asked for.")
    detail: Annotated[str, StringConstraints(max_length=1024)] | None = Field(
        default=None,
        description="rollback: the Helm revision, the last good one if absent. pause: steps not to begin, separated by "
        "commas; none at all if absent. resume: 'all' drops every breakpoint.",
    )
    reason: Why | None = Field(default=None, description="Why; kept in the status of the package.")
    who: Who | None = Field(
        default=None, description="Who asks. Filled in by the policy windlass-who; nobody can write another name."
    )


class ActionRequestStatus(KubeModel):
    """What came of a request. Written by Windlass only."""

    phase: RequestPhase | None = Field(
        default=None,
        description="Waiting: not passed on yet, see message. Unknown: it may have been carried out before Temporal "
        "lost its data, and is not carried out again.",
    )
    accepted: bool | None = Field(
        default=None,
        description="Whether the lifecycle has taken it up; absent while it waits and if unknown.",
    )
    message: str | None = None
    at: AwareDatetime | None = Field(default=None, description="When it was answered.")


class ActionRequest(KubeObject):
    """One action that a person asks a package's lifecycle for."""

    kind: Literal["ActionRequest"] = "ActionRequest"
    spec: ActionRequestSpec
    status: ActionRequestStatus | None = None

    @property
    def answered(self) -> bool:
        """Whether nothing more happens to it."""
        return self.status is not None and self.status.phase in {"Accepted", "Refused", "Unknown"}

    @property
    def created(self) -> datetime:
        """When the API server admitted it.

        Raises:
            ValueError: the object was never sent to an API server.
        """
        return datetime.fromisoformat(self.metadata.creation_timestamp or "")

    def key(self, installation: str) -> PackageKey:
        """Return which package of ``installation`` it is about."""
        target = self.spec.target
        kind = Kind(target.kind)
        namespace = "" if kind is Kind.MODULE else self.metadata.namespace
        return PackageKey(installation=installation, kind=kind, namespace=namespace, name=target.name)


def parse_request(obj: Mapping[str, Any]) -> ActionRequest:
    """Read an object.

    Raises:
        ValueError: it is none; the API server admits only what the schema allows.
    """
    return ActionRequest.model_validate(obj)


def action_of(request: ActionRequest) -> Action:
    """Return the argument of the update named ``request.spec.action``.

    Raises:
        ValueError: this version does not carry out the action, the detail is wrong, or nobody is named who asks; the
            text is for the person who asked.
    """
    spec = request.spec
    detail = (spec.detail or "").strip()
    if not spec.who:
        raise ValueError("spec.who is empty: the admission policy that fills it in or checks it was not in effect")
    common: dict[str, Any] = {
        "who": spec.who,
        "why": spec.reason or "",
        "uid": request.metadata.uid,
        "asked": request.created.timestamp(),
    }
    match spec.action:
        case "rollback":
            if detail and not _REVISION.fullmatch(detail):
                raise ValueError(f"spec.detail of rollback is a Helm revision such as 3, not {detail!r}")
            return RollbackAction(**common, to=int(detail) if detail else None)
        case "pause":
            before = tuple(name for part in detail.split(",") if (name := part.strip()))
            for name in before:
                if breakpoint_of(name) is None:
                    raise ValueError(f"spec.detail of pause: {name!r} is none of {', '.join(BREAKABLE)}")
            return PauseAction(**common, before=before)
        case "resume":
            if detail not in ("", _ALL):
                raise ValueError(f"spec.detail of resume is empty or {_ALL!r}, not {detail!r}")
            return ResumeAction(**common, everything=detail == _ALL)
        case "retry" | "skip" | "cancel":
            if detail:
                raise ValueError(f"{spec.action} takes no spec.detail")
            return Action(**common)
        case _:
            raise ValueError(f"this version of Windlass does not carry out {spec.action}")
