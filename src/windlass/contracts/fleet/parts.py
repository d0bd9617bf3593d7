"""Parts that several kinds of a fleet have in common: names, references, selectors, free JSON."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.objects import Condition
from windlass.contracts.schema_rules import DNS_LABEL_PATTERN, DNS_SUBDOMAIN_PATTERN

_DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
LABEL_KEY_PATTERN: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE_PATTERN: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
FREE: Final[dict[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}
"""Schema extension of what Windlass passes on without looking into it."""

ATOMIC: Final[dict[str, Any]] = {"x-kubernetes-list-type": "atomic"}
"""Schema extension of lists that are replaced as a whole."""

type Name = Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN_PATTERN, min_length=1, max_length=253)]
"""Name of an object."""

type OptionalName = Annotated[str, StringConstraints(pattern=rf"^$|{DNS_SUBDOMAIN_PATTERN}", max_length=253)]
"""Name of an object; empty is the same as absent."""

type Namespace = Annotated[str, StringConstraints(pattern=DNS_LABEL_PATTERN, min_length=1, max_length=63)]
type LabelKey = Annotated[str, StringConstraints(pattern=LABEL_KEY_PATTERN, min_length=1, max_length=317)]
type LabelValue = Annotated[str, StringConstraints(pattern=LABEL_VALUE_PATTERN, max_length=63)]
type Text = Annotated[str, StringConstraints(max_length=1024)]
"""One line: a version, an address, a path."""

type Span = Annotated[str, StringConstraints(pattern=_DURATION_PATTERN, max_length=32)]
"""A duration as Helm and Flux write it: ``5m0s``."""

type FreeObject = Annotated[dict[str, Any], Field(json_schema_extra=FREE)]
"""An object of any shape."""

type Conditions = Annotated[
    list[Condition],
    Field(
        max_length=32,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class LabelSelectorRequirement(KubeModel):
    """One expression of a label selector."""

    key: LabelKey = Field(description="Key of the label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="How values relate to the key.")
    values: list[LabelValue] | None = Field(
        default=None,
        max_length=64,
        description="For In and NotIn at least one value, for Exists and DoesNotExist none.",
        json_schema_extra=ATOMIC,
    )


class LabelSelector(KubeModel):
    """A label selector of Kubernetes."""

    match_labels: dict[str, LabelValue] | None = Field(
        default=None, max_length=64, description="Labels with exactly these values."
    )
    match_expressions: list[LabelSelectorRequirement] | None = Field(
        default=None, max_length=64, description="Expressions that must all hold.", json_schema_extra=ATOMIC
    )


class ObjectReference(KubeModel):
    """Names another object."""

    api_version: Text | None = None
    kind: Text | None = None
    namespace: Text | None = None
    name: Text | None = None
    uid: Text | None = None
    resource_version: Text | None = None
    field_path: Text | None = None


class SourceReference(KubeModel):
    """Names an object that holds content, or that says where it is."""

    api_version: Text | None = None
    kind: Text = Field(description="Kind of the object.")
    name: Name = Field(description="Name of the object.")
    namespace: Namespace | None = Field(default=None, description="Its namespace; absent: that of this object.")


class LocalReference(KubeModel):
    """Names an object of the same namespace."""

    name: Name


class ValuesFrom(KubeModel):
    """A source of values: every key of a ConfigMap or Secret in the namespace of the ServiceSet."""

    kind: Literal["ConfigMap", "Secret"] = Field(description="Kind of the object.")
    name: Name = Field(description="Name of the object.")


class UpgradeEdge(KubeModel):
    """A template that can be upgraded to."""

    name: Name = Field(description="Name of the ServiceTemplate.")
    version: Text | None = Field(default=None, description="Its version; absent: the template's own.")


class ServiceState(KubeModel):
    """What a provider reports of one service on one cluster."""

    type: Text | None = Field(default=None, description="Helm, Kustomize or Resource.")
    name: Text
    namespace: Text
    template: Text | None = None
    version: Text | None = Field(default=None, description="The version that is known to be deployed.")
    state: Text = Field(description="Deployed, Provisioning, Failed, Pending, Deleting or Deleted.")
    failure_message: Annotated[str, StringConstraints(max_length=8192)] | None = None
    last_state_transition_time: AwareDatetime | None = None
    last_deployed_hash: Text | None = None
    cluster_name: Text | None = None
    cluster_namespace: Text | None = None
    conditions: Conditions | None = None


class UpgradeRoute(KubeModel):
    """One route: the templates on the way in walking order, without the start."""

    versions: list[UpgradeEdge] | None = Field(default=None, max_length=500, json_schema_extra=ATOMIC)
    upgrade_paths: list[Text] | None = Field(
        default=None, max_length=500, description="Deprecated: versions alone.", json_schema_extra=ATOMIC
    )


class ServiceUpgradePaths(KubeModel):
    """Where a service can be upgraded to from the template it has."""

    name: Text
    namespace: Text
    template: Text
    available_upgrades: list[UpgradeRoute] | None = Field(default=None, max_length=500, json_schema_extra=ATOMIC)
