"""What a package's object says about drift, and what is said of it in its status."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.domain.drift.comparison import DIFFERENCES_KEPT, Mode, Policy, Rule, rules_digest


class DriftTarget(KubeModel):
    """Selects objects of the release; ``*`` is a wildcard in each field, absent fields select all."""

    kind: Annotated[str, StringConstraints(max_length=253)] | None = None
    group: Annotated[str, StringConstraints(max_length=253)] | None = Field(
        default=None, description="API group without version; absent: any."
    )
    name: Annotated[str, StringConstraints(max_length=253)] | None = None
    namespace: Annotated[str, StringConstraints(max_length=253)] | None = None


class DriftIgnore(KubeModel):
    """Fields that may differ from what the chart says."""

    target: DriftTarget = Field(default_factory=DriftTarget, description="In which objects; absent: in all.")
    paths: list[
        Annotated[
            str,
            StringConstraints(pattern=r"^(/[^/]+)+$|^[^/.][^.]*(\.[^.]+)*$", min_length=1, max_length=500),
        ]
    ] = Field(
        min_length=1,
        max_length=32,
        description="JSON pointers such as /spec/replicas, or dotted paths; * stands for any member or item.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class DriftSpec(KubeModel):
    """What is done when somebody else changes the objects of the release."""

    mode: Literal["detect", "correct", "off"] = Field(
        default="detect",
        description="detect: tell about changed fields; correct: put them back; off: do nothing. Absent objects are "
        "put back except with off.",
    )
    ignore: list[DriftIgnore] = Field(
        default_factory=list[DriftIgnore],
        max_length=32,
        description="Fields that may differ.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )

    def policy(self, *, maintenance: bool) -> Policy:
        """Return what is to be done about drift."""
        return Policy(mode=Mode(self.mode), rules=rules_digest(self.rules), maintenance=maintenance)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What to ignore."""
        return tuple(
            Rule(
                kind=one.target.kind or "",
                group=one.target.group or "",
                name=one.target.name or "",
                namespace=one.target.namespace or "",
                paths=tuple(one.paths),
            )
            for one in self.ignore
        )


def policy_of(drift: DriftSpec | None, maintenance: str | None) -> Policy:
    """Return what is to be done about drift, from ``spec.drift`` and ``spec.maintenance``."""
    return (drift or DriftSpec()).policy(maintenance=maintenance is not None)


class DriftDifference(KubeModel):
    """One thing that is not as the release's manifest says; never a value."""

    kind: str
    namespace: str | None = None
    name: str
    path: str | None = Field(default=None, description="JSON pointer; absent: the whole object.")
    change: str = Field(description="absent, changed or removed.")
    manager: str | None = Field(default=None, description="Who wrote the field last, from managedFields.")


class DriftStatus(KubeModel):
    """Where the objects of the release are not what its manifest says."""

    total: int = Field(ge=0)
    digest: str = ""
    unwatched: str | None = Field(
        default=None, description="Which objects are not watched but compared from time to time, and why."
    )
    differences: list[DriftDifference] = Field(
        default_factory=list[DriftDifference],
        max_length=DIFFERENCES_KEPT,
        description="The first of them.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
