"""``spec.allowedNamespaces`` of a PackageRepository: which packages may use it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.schema_rules import DNS_LABEL_PATTERN, rules
from windlass.domain.packages.admission import EVERYONE, Audience, Operator, Requirement

type NamespaceName = Annotated[str, StringConstraints(pattern=DNS_LABEL_PATTERN, min_length=1, max_length=63)]
type LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=317)]
type LabelValue = Annotated[str, StringConstraints(max_length=63)]


class SelectorRequirement(KubeModel):
    """One expression of a label selector."""

    key: LabelKey = Field(description="The label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="How key and values are related.")
    values: list[LabelValue] | None = Field(
        default=None,
        max_length=64,
        description="Values of In and NotIn.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class NamespaceSelector(KubeModel):
    """A label selector over namespaces; all of it has to hold."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                " || ".join(
                    f"(has(self.{part}) && self.{part}.size() > 0)" for part in ("matchLabels", "matchExpressions")
                ),
                "an empty selector selects all namespaces: write from: All",
            )
        )
    )

    match_labels: dict[str, LabelValue] | None = Field(default=None, description="Labels with these values.")
    match_expressions: list[SelectorRequirement] | None = Field(
        default=None,
        max_length=16,
        description="Requirements on labels.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The selector as the domain has it."""
        equal = tuple(
            Requirement(key=key, operator=Operator.IN, values=frozenset({value}))
            for key, value in (self.match_labels or {}).items()
        )
        written = tuple(
            Requirement(key=one.key, operator=Operator(one.operator), values=frozenset(one.values or ()))
            for one in self.match_expressions or ()
        )
        return equal + written


class AllowedNamespaces(KubeModel):
    """Which namespaces' packages may use a repository."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.from != 'All' || (!has(self.names) && !has(self.selector))",
                "from: All goes without names and selector",
            )
        )
    )

    origin: Literal["All", "Selected"] = Field(
        default="Selected",
        alias="from",
        description="All namespaces, or those that names or selector select; Selected without either serves none.",
    )
    names: list[NamespaceName] | None = Field(
        default=None,
        max_length=256,
        description="Namespaces by name.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    selector: NamespaceSelector | None = Field(
        default=None, description="Namespaces by their labels, besides those in names."
    )

    @property
    def audience(self) -> Audience:
        """The namespaces as the domain has them."""
        if self.origin == "All":
            return EVERYONE
        return Audience(names=frozenset(self.names or ()), selector=self.selector.requirements if self.selector else ())
