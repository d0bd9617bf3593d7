"""The Kubernetes objects of packages (``windlass.dev/v1alpha1``): ``Application`` and ``Module``.

The models are the schema: `windlass.contracts.crds` generates the CRDs in ``deploy/crds`` from them. They keep fields
they do not know and write them back, so that an older worker never drops what a newer schema holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, override

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.drift import DriftSpec, DriftStatus
from windlass.contracts.schema_rules import DNS_LABEL_PATTERN, DNS_SUBDOMAIN_PATTERN, fixed, rule, rules
from windlass.contracts.target import TargetSpec
from windlass.domain.errors import Actor
from windlass.domain.ids import (
    API_VERSION,
    DEFAULT_INSTALLATION,
    INSTALLATION_LABEL,
    LABEL_MAX,
    RELEASE_NAME_MAX,
    Kind,
    PackageKey,
)
from windlass.domain.lifecycle.policy import GOOD_KEPT, Cause
from windlass.domain.lifecycle.steps import ATTEMPTS, OnFailure
from windlass.domain.packages.model import Source
from windlass.domain.target import Placement, Wish, placement_of

ACTIONS_KEPT: Final = 50
"""Actions of people that stay in status (design.md section 4): Temporal's retention forgets them."""

READINESS_TIMEOUT_SECONDS: Final = 600.0
"""How long one rollout may take before the step fails, unless the object says otherwise."""

SEMVER_PATTERN: Final = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$"
)
"""Semantic Versioning 2.0.0. No leading ``v``: one version has one spelling, as folders and digests need."""

_PRERELEASE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_COMPARISON: Final = (
    r"(!=|>=|=>|<=|=<|~>|=|<|>|~|\^)? *([0-9]+|[xX*])(\.([0-9]+|[xX*])){0,2}"
    rf"(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)
WANTED_PATTERN: Final = rf"^{_COMPARISON}(( *, *| +| +- +| *\|\| *){_COMPARISON})*(@sha256:[0-9a-f]{{64}})?$"
"""The form of ``spec.package.version``; what it means is `windlass.domain.packages.wanted`'s affair."""

_DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_DURATION_UNITS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


type Duration = Annotated[
    str,
    StringConstraints(pattern=_DURATION_PATTERN, max_length=32),
    Field(
        json_schema_extra=rule(
            "duration(self) >= duration('1s') && duration(self) <= duration('24h')", "must be between 1s and 24h"
        )
    ),
]
"""A duration as Kubernetes users write it: ``90s``, ``10m``, ``1h30m``."""


def seconds(duration: str) -> float:
    """Return the seconds of a `Duration`, which the model has already checked for form."""
    return sum(float(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PART.findall(duration))


class ObjectMeta(KubeModel):
    """The metadata Windlass reads. Timestamps stay text: they are compared and shown, never computed with."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    annotations: dict[str, str] = Field(default_factory=dict[str, str])
    finalizers: list[str] = Field(default_factory=list[str])


class KubeObject(KubeModel):
    """A whole object. ``to_object`` always names its kind, also when that was never set."""

    api_version: str = API_VERSION
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    @override
    def to_object(self) -> dict[str, Any]:
        return {"apiVersion": self.api_version, "kind": type(self).__name__, **super().to_object()}


# -- packages: what people write -------------------------------------------------------------------------------------


class PackageRef(KubeModel):
    """Which version of which package, from which PackageRepository."""

    repository: Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN_PATTERN, min_length=1, max_length=253)] = Field(
        description="Name of a PackageRepository."
    )
    name: Annotated[str, StringConstraints(min_length=1, max_length=63)] = Field(
        description="Name of the package in the repository. It cannot change: another package is another object.",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": f"self.matches('{DNS_LABEL_PATTERN}')",
                    "message": "must be a DNS label: lower case letters, digits and '-'",
                },
                {
                    "rule": "self == oldSelf",
                    "message": "cannot change: delete this object and create one for the other package",
                },
            ]
        },
    )
    version: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Exact semantic version such as 1.4.2, a range such as ^1.4 that takes the newest version it "
        "admits, or an exact version with the digest of its archive or OCI manifest, such as 1.4.2@sha256:...",
        json_schema_extra=rule(
            "self.matches(r'" + WANTED_PATTERN + "')",
            "must be a semantic version without a leading v, such as 1.4.2, or a range of them, such as ^1.4",
        ),
    )


class ValuesReference(KubeModel):
    """One source of settings besides ``spec.settings``: in the object's namespace, read as the package's account."""

    kind: Literal["ConfigMap", "Secret"] = Field(description="Kind of the object that holds the settings.")
    name: Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN_PATTERN, min_length=1, max_length=253)] = Field(
        description="Name of the object."
    )
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)] = Field(
        default="values.yaml", description="Key in the object's data."
    )
    optional: bool = Field(default=False, description="Whether the object or the key may be missing.")
    target_path: (
        Annotated[str, StringConstraints(pattern=r"^[-_a-zA-Z0-9]+(\.[-_a-zA-Z0-9]+)*$", min_length=1, max_length=250)]
        | None
    ) = Field(
        default=None,
        description="Dotted path that takes the key's text as one string; absent: the text is YAML and is merged "
        "at the root.",
    )


class Timeouts(KubeModel):
    """Limits of the steps that wait for the cluster."""

    readiness: Duration | None = Field(
        default=None, description="How long one rollout may take before the step fails; 10m if absent."
    )


class UpgradePolicy(KubeModel):
    """What the failure of an upgrade leads to; a first installation is always tried again."""

    model_config = ConfigDict(
        json_schema_extra=rule(
            "!has(self.attempts) || self.onFailure != 'retry'",
            "attempts is for onFailure rollback and hold: retry has no end",
        )
    )

    on_failure: OnFailure = Field(
        default=OnFailure.RETRY,
        description="retry: try again for ever; rollback: go back to the last good version and settings, and stay "
        "there until the object asks for something else; hold: wait for the action retry, rollback or skip.",
    )
    attempts: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description=f"How often a step may fail before onFailure decides; {ATTEMPTS} if absent. A failure that "
        "somebody must mend decides at once.",
    )


class PackageSpec(KubeModel):
    """The desired state of one installed package."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            fixed("target.namespace", "target", "namespace"),
            fixed("target.cluster", "target.cluster.kubeconfigSecret", "name", "key"),
            fixed("releaseName", "", "releaseName"),
        )
    )

    package: PackageRef
    target: TargetSpec | None = Field(default=None, description="Where the package is installed and as whom.")
    release_name: (
        Annotated[str, StringConstraints(pattern=DNS_LABEL_PATTERN, min_length=1, max_length=RELEASE_NAME_MAX)] | None
    ) = Field(
        default=None,
        description="Name of the Helm release; absent: the name of the object, shortened if it has more than "
        f"{RELEASE_NAME_MAX} characters. It cannot change.",
    )
    deletion_policy: Literal["Delete", "Orphan"] = Field(
        default="Delete",
        description="Delete: the release is uninstalled with the object; Orphan: the release stays, hooks do not run.",
    )
    settings: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Settings of the package, checked against its openapi/settings.yaml. They win over valuesFrom.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )
    settings_version: int | None = Field(
        default=None,
        ge=1,
        description="Version of the settings' shape; older ones are converted by the package. Absent: the newest.",
    )
    values_from: list[ValuesReference] = Field(
        default_factory=list[ValuesReference],
        max_length=32,
        description="Further sources of settings; later ones win over earlier ones.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    suspend: bool = Field(
        default=False, description="Stop hooks and reconciling; the release stays unless deleteOnDisable is true."
    )
    delete_on_disable: bool = Field(
        default=False, description="Uninstall the release while the package is disabled, instead of keeping it."
    )
    wait: bool = Field(default=True, description="Wait until every object of the release is ready.")
    timeouts: Timeouts | None = None
    upgrade: UpgradePolicy | None = None
    drift: DriftSpec | None = Field(default=None, description="Objects of the release that others change; detect.")
    maintenance: Literal["NoResourceReconciliation"] | None = Field(
        default=None,
        description="NoResourceReconciliation: absent objects and changed fields are told of and not put back.",
    )

    @property
    def readiness_timeout(self) -> float:
        """Seconds that one rollout may take."""
        if self.timeouts is None or self.timeouts.readiness is None:
            return READINESS_TIMEOUT_SECONDS
        return seconds(self.timeouts.readiness)


# -- packages: what Windlass writes ----------------------------------------------------------------------------------


class Condition(KubeModel):
    """One condition, as ``metav1.Condition`` has it."""

    type: Annotated[str, StringConstraints(min_length=1, max_length=316)]
    status: Literal["True", "False", "Unknown"]
    observed_generation: int | None = Field(default=None, ge=0)
    last_transition_time: AwareDatetime
    reason: Annotated[str, StringConstraints(max_length=1024)] = ""
    message: Annotated[str, StringConstraints(max_length=32768)] = ""


class ReleaseStatus(KubeModel):
    """The Helm release in use; a long name is shortened."""

    name: str
    namespace: str
    revision: int | None = None


class FailureStatus(KubeModel):
    """The failure that holds the lifecycle now; gone once the step has succeeded."""

    step: str
    reason: str
    message: str = ""
    hint: str | None = Field(default=None, description="What to do about it.")
    actor: Actor | None = Field(default=None, description="Who must act; absent when it goes away by itself.")
    attempt: int = Field(ge=1, description="How often the step has failed in a row.")
    next_try: AwareDatetime | None = None


class ProgressStatus(KubeModel):
    """How far the running step has come."""

    completed: int = Field(ge=0)
    remaining: int = Field(ge=0)
    waiting_for: list[str] = Field(
        default_factory=list[str],
        max_length=5,
        description="What is awaited and why, as Kind/name: reason.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class SeenStatus(KubeModel):
    """What the lifecycle last took notice of; the watcher signals only what differs from it."""

    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    digest: str = Field(
        default="", description="Keyed digest of annotations and of referenced Secrets, ConfigMaps and repositories."
    )


class ActionRecord(KubeModel):
    """One action that a person asked for: what, who, why, when."""

    action: str
    uid: str | None = Field(
        default=None,
        description="Of the ActionRequest; written before the action takes effect.",
    )
    detail: str | None = Field(default=None, description="What the action is about, such as the step of a breakpoint.")
    who: str
    why: str = ""
    at: AwareDatetime

    @property
    def text(self) -> str:
        """The action as people read it: ``pause before UpgradeRelease``."""
        return f"{self.action} {self.detail or ''}".rstrip()


class RevisionStatus(KubeModel):
    """One good release: its run ended well."""

    revision: int = Field(ge=0, description="Helm's number; 0 for a package without a chart.")
    version: str
    repository: str
    digest: str = Field(description="Content digest of the package.")
    settings: str = Field(description="Keyed digest of the settings.")
    at: AwareDatetime


class RejectedStatus(KubeModel):
    """What the object asks for and is not tried: until it asks for something else, or the action retry."""

    version: str
    repository: str
    settings: str = Field(description="Keyed digest of the settings.")
    step: str | None = Field(default=None, description="The step that failed; absent if a person rejected it.")
    reason: str
    message: str = ""
    at: AwareDatetime
    instead: RevisionStatus = Field(description="The good release that is kept in its stead.")


class HeldStatus(KubeModel):
    """The step at which the lifecycle waits for an action, and why."""

    step: str
    cause: Cause
    reason: str | None = None
    message: str | None = None
    at: AwareDatetime | None = None


class WorkflowStatus(KubeModel):
    """Where this life can be read step by step."""

    id: str
    run_id: str | None = None
    link: str | None = Field(default=None, description="Address in the Temporal UI.")


class PackageStatus(KubeModel):
    """The observed state."""

    observed_generation: int | None = Field(default=None, ge=0)
    phase: str | None = Field(default=None, description="Where in its life the package is, in one word.")
    step: str | None = Field(default=None, description="The step that runs now or comes next.")
    version: str | None = Field(default=None, description="The version of the release that stands.")
    digest: str | None = Field(default=None, description="Content digest of the package in use.")
    release: ReleaseStatus | None = None
    conditions: list[Condition] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    failure: FailureStatus | None = None
    progress: ProgressStatus | None = None
    drift: DriftStatus | None = Field(default=None, description="Absent while nothing differs.")
    seen: SeenStatus | None = None
    actions: list[ActionRecord] | None = Field(
        default=None,
        max_length=ACTIONS_KEPT,
        description="The newest actions of people, oldest first.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    paused: bool | None = Field(
        default=None, description="Somebody requested a pause; true also when that action is no longer among `actions`."
    )
    held: HeldStatus | None = None
    breakpoints: list[str] | None = Field(
        default=None,
        max_length=32,
        description="Steps that are not begun before somebody requests resume.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    rejected: RejectedStatus | None = None
    revisions: list[RevisionStatus] | None = Field(
        default=None,
        max_length=GOOD_KEPT,
        description="The newest good releases, oldest first: what can be gone back to.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    workflow: WorkflowStatus | None = None
    completed: str | None = Field(
        default=None,
        description="Content and settings of the last completed run; a rebuilt workflow does not run them again.",
    )


class PackageObject(KubeObject):
    """What Applications and Modules have in common: an object whose life a lifecycle leads."""

    spec: PackageSpec
    status: PackageStatus | None = None

    @property
    def source(self) -> Source:
        """The version that ``spec.package`` names."""
        package = self.spec.package
        return Source(repository=package.repository, package=package.name, version=package.version)

    @property
    def installation(self) -> str:
        """The installation that serves the object."""
        return self.metadata.labels.get(INSTALLATION_LABEL, DEFAULT_INSTALLATION)

    def key(self, installation: str) -> PackageKey:
        """Return which package of ``installation`` this is."""
        kind, metadata = Kind(type(self).__name__), self.metadata
        return PackageKey(installation=installation, kind=kind, namespace=metadata.namespace, name=metadata.name)

    def placement(self, *, allow_defaults: bool = True) -> Placement:
        """Return where the package is installed and as whom.

        Raises:
            PermanentError: TARGET_REFUSED (`windlass.domain.target.placement_of`).
        """
        target = self.spec.target or TargetSpec()
        wish = Wish(
            namespace=target.namespace or "",
            create_namespace=target.create_namespace,
            account=target.service_account_name or "",
            cluster=target.kubeconfig,
            release=self.spec.release_name or "",
        )
        return placement_of(self.key(self.installation), wish, allow_defaults=allow_defaults)

    @property
    def home(self) -> str:
        """The namespace of what the object refers to by name."""
        return self.key(self.installation).home


class Application(PackageObject):
    """One package installed in one namespace."""

    model_config = ConfigDict(
        json_schema_extra=rule(
            f"self.metadata.name.size() <= {LABEL_MAX} && self.metadata.name.matches('{DNS_LABEL_PATTERN}')",
            f"metadata.name must be a DNS label of at most {LABEL_MAX} characters",
        )
    )

    kind: Literal["Application"] = "Application"


class Module(PackageObject):
    """One package installed for the whole cluster under its own name, in namespace windlass-modules by default."""

    model_config = ConfigDict(
        json_schema_extra=rule(
            "self.metadata.name == self.spec.package.name",
            "metadata.name must be spec.package.name: a cluster has one Module of a package, "
            "and others require it by that name",
        )
    )

    kind: Literal["Module"] = "Module"


def parse_package(kind: Kind, obj: Mapping[str, Any]) -> PackageObject:
    """Read an object of one of the kinds that are packages.

    Raises:
        ValueError: it is none; the API server admits only what the schema allows.
    """
    return (Module if kind is Kind.MODULE else Application).model_validate(obj)
