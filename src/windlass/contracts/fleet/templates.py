"""``ServiceTemplate`` and ``ServiceTemplateChain``: what can be deployed, and which upgrades are allowed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.fleet.parts import ATOMIC, Conditions, FreeObject, Name, ObjectReference, Text, UpgradeEdge
from windlass.contracts.fleet.services import HelmOptions
from windlass.contracts.fleet.sources import Authorization, ChartReference, ChartSpec, ContentSource
from windlass.contracts.objects import KubeObject
from windlass.contracts.schema_rules import rules
from windlass.domain.servicesets.chains import MAX_TEMPLATES

UPGRADES_OF_ONE = 100
"""Upgrades of one template; those of a whole chain are counted in its condition."""


class HelmSource(KubeModel):
    """A Helm chart: one of chartSpec, chartRef, chartSource."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(has(self.chartSpec) ? 1 : 0) + (has(self.chartRef) ? 1 : 0) + (has(self.chartSource) ? 1 : 0) == 1",
                "exactly one of chartSpec, chartRef and chartSource must be set",
            )
        )
    )

    chart_spec: ChartSpec | None = Field(default=None, description="A chart of a source object.")
    chart_ref: ChartReference | None = Field(default=None, description="A source object that holds the chart.")
    chart_source: ContentSource | None = Field(default=None, description="A source that holds the chart.")


class ServiceTemplateSpec(KubeModel):
    """What a template deploys: one of helm, kustomize, resources."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self == oldSelf", "a ServiceTemplate cannot change: create another one and name it in the chain"),
            (
                "(has(self.helm) ? 1 : 0) + (has(self.kustomize) ? 1 : 0) + (has(self.resources) ? 1 : 0) == 1",
                "exactly one of helm, kustomize and resources must be set",
            ),
        )
    )

    helm: HelmSource | None = Field(default=None, description="A Helm chart.")
    kustomize: ContentSource | None = Field(default=None, description="A kustomization.")
    resources: ContentSource | None = Field(default=None, description="Plain manifests.")
    helm_options: HelmOptions | None = Field(
        default=None, description="Options of Helm; those of the service win over them."
    )
    authorization: Authorization | None = Field(default=None, description="Secrets for the sources.")
    version: Text | None = Field(
        default=None, description="Version of what is deployed; absent: that of the chart, or the template's name."
    )
    k8s_constraint: Text | None = Field(
        default=None, alias="k8sConstraint", description="Versions of Kubernetes that it runs on: >=1.30."
    )


class ServiceTemplateStatus(KubeModel):
    """Whether the template can be deployed."""

    valid: bool | None = Field(default=None, description="Absent until somebody looked.")
    validation_error: Annotated[str, StringConstraints(max_length=8192)] | None = None
    description: Text | None = None
    config: FreeObject | None = None
    chart_ref: ObjectReference | None = None
    chart_version: Text | None = None
    source_status: FreeObject | None = None
    k8s_constraint: Text | None = Field(default=None, alias="k8sConstraint")
    conditions: Conditions | None = None
    observed_generation: int | None = Field(default=None, ge=0)


class ServiceTemplate(KubeObject):
    """One version of one service. It cannot change."""

    kind: Literal["ServiceTemplate"] = "ServiceTemplate"
    spec: ServiceTemplateSpec
    status: ServiceTemplateStatus | None = None


class SupportedTemplate(KubeModel):
    """A template of a chain and where it can be upgraded to."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.availableUpgrades) || "
                + " || ".join(
                    f"self.availableUpgrades.all(u, {versions})"
                    for versions in ("has(u.version) && u.version != ''", "!has(u.version) || u.version == ''")
                ),
                "either all or none of the upgrades of one template must have a version",
            )
        )
    )

    name: Name = Field(description="Name of a ServiceTemplate in the namespace of the chain.")
    available_upgrades: list[UpgradeEdge] | None = Field(
        default=None,
        max_length=UPGRADES_OF_ONE,
        description="Templates it can be upgraded to in one hop; each of them is in supportedTemplates.",
        json_schema_extra=ATOMIC,
    )


class ServiceTemplateChainSpec(KubeModel):
    """A directed graph of templates. Versions imply no upgrade; each is listed."""

    supported_templates: list[SupportedTemplate] | None = Field(
        default=None,
        max_length=MAX_TEMPLATES,
        description="The templates of the chain; a name occurs once.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )


class ServiceTemplateChainStatus(KubeModel):
    """Whether the chain can be used."""

    valid: bool | None = Field(default=None, description="Absent until somebody looked.")
    validation_error: Annotated[str, StringConstraints(max_length=8192)] | None = None
    conditions: Conditions | None = None
    observed_generation: int | None = Field(default=None, ge=0)


class ServiceTemplateChain(KubeObject):
    """Which template can be upgraded to which. It may change; a hop under way finishes on the chain it began with."""

    kind: Literal["ServiceTemplateChain"] = "ServiceTemplateChain"
    spec: ServiceTemplateChainSpec
    status: ServiceTemplateChainStatus | None = None
