"""Where the content of a template comes from. Field names are those of K0rdent and Flux.

A template cannot change, and a rule of the API server sees known fields only. So every field is listed here.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from windlass.contracts.base import KubeModel
from windlass.contracts.fleet.parts import ATOMIC, LocalReference, Name, Namespace, SourceReference, Span, Text
from windlass.contracts.schema_rules import rules

type Provider = Annotated[str, StringConstraints(max_length=63)]
type Ignored = Annotated[str, StringConstraints(max_length=8192)]


class OidcIdentity(KubeModel):
    """Whose keyless signature counts."""

    issuer: Text
    subject: Text


class SourceVerification(KubeModel):
    """Which signature the content has to carry."""

    mode: Text | None = None
    provider: Provider | None = None
    secret_ref: LocalReference | None = None
    match_oidc_identity: list[OidcIdentity] | None = Field(
        default=None, alias="matchOIDCIdentity", max_length=16, json_schema_extra=ATOMIC
    )


class _Fetched(KubeModel):
    interval: Span | None = Field(default=None, description="Time between two looks at the source.")
    timeout: Span | None = None
    suspend: bool | None = None
    secret_ref: LocalReference | None = Field(default=None, description="Secret with the login.")
    proxy_secret_ref: LocalReference | None = None
    provider: Provider | None = None
    ignore: Ignored | None = None


class GitReference(KubeModel):
    """Which revision of a Git repository."""

    branch: Text | None = None
    tag: Text | None = None
    semver: Text | None = None
    name: Text | None = None
    commit: Text | None = None


class GitInclude(KubeModel):
    """A folder of another repository."""

    repository: LocalReference
    from_path: Text | None = None
    to_path: Text | None = None


class GitSource(_Fetched):
    """A Git repository."""

    url: Text = Field(description="Address of the repository.")
    ref: GitReference | None = None
    verify: SourceVerification | None = None
    recurse_submodules: bool | None = None
    sparse_checkout: list[Text] | None = Field(default=None, max_length=64, json_schema_extra=ATOMIC)
    include: list[GitInclude] | None = Field(default=None, max_length=16, json_schema_extra=ATOMIC)


class BucketTokens(KubeModel):
    """A service that issues tokens for a bucket."""

    provider: Provider
    endpoint: Text
    secret_ref: LocalReference | None = None
    cert_secret_ref: LocalReference | None = None


class BucketSource(_Fetched):
    """A bucket of an object store."""

    bucket_name: Text
    endpoint: Text
    region: Text | None = None
    prefix: Text | None = None
    insecure: bool | None = None
    sts: BucketTokens | None = None
    cert_secret_ref: LocalReference | None = None
    service_account_name: Name | None = None


class OciReference(KubeModel):
    """Which artefact of an OCI repository."""

    digest: Text | None = None
    semver: Text | None = None
    semver_filter: Text | None = None
    tag: Text | None = None


class OciLayer(KubeModel):
    """Which layer of an artefact."""

    media_type: Text | None = None
    operation: Text | None = None


class OciSource(_Fetched):
    """An OCI repository."""

    url: Text = Field(description="Address: oci://host/path.")
    ref: OciReference | None = None
    layer_selector: OciLayer | None = None
    verify: SourceVerification | None = None
    service_account_name: Name | None = None
    cert_secret_ref: LocalReference | None = None
    insecure: bool | None = None


class RemoteSource(KubeModel):
    """A source that K0rdent makes an object for: one of git, bucket, oci."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(has(self.git) ? 1 : 0) + (has(self.bucket) ? 1 : 0) + (has(self.oci) ? 1 : 0) == 1",
                "exactly one of git, bucket and oci must be set",
            )
        )
    )

    git: GitSource | None = Field(default=None, description="Not delivered yet: the template is invalid.")
    bucket: BucketSource | None = Field(default=None, description="Not delivered yet: the template is invalid.")
    oci: OciSource | None = None


class ContentSource(KubeModel):
    """Manifests, a kustomization or a chart: from an object of the cluster, or from outside."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.localSourceRef) != has(self.remoteSourceSpec)",
                "exactly one of localSourceRef and remoteSourceSpec must be set",
            )
        )
    )

    local_source_ref: SourceReference | None = Field(
        default=None, description="A ConfigMap, a Secret, or a source object of Flux."
    )
    remote_source_spec: RemoteSource | None = Field(default=None, description="A source outside the cluster.")
    deployment_type: Literal["Local", "Remote"] = Field(
        default="Remote", description="Remote: on the cluster of the service; Local: on the management cluster."
    )
    path: Text | None = Field(default=None, description="Folder in the source; its root if absent.")


class ChartSourceReference(KubeModel):
    """The source object that a chart comes from."""

    api_version: Text | None = None
    kind: Literal["HelmRepository", "GitRepository", "Bucket"] = Field(description="Kind of the source object.")
    name: Name = Field(description="Its name, in the namespace of the template.")


class ChartSpec(KubeModel):
    """Which chart, from where."""

    chart: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = Field(
        description="Name of the chart, or its path in the source."
    )
    version: Text | None = Field(default=None, description="Version of the chart; it stands in for the template's.")
    source_ref: ChartSourceReference | None = Field(default=None, description="The source object.")
    interval: Span | None = None
    reconcile_strategy: Literal["ChartVersion", "Revision"] | None = None
    suspend: bool | None = None
    values_files: list[Text] | None = Field(default=None, max_length=32, json_schema_extra=ATOMIC)
    ignore_missing_values_files: bool | None = None
    verify: SourceVerification | None = None


class ChartReference(KubeModel):
    """A source object that holds one chart."""

    api_version: Text | None = None
    kind: Literal["OCIRepository", "HelmChart", "ExternalArtifact"]
    name: Name
    namespace: Namespace | None = None


class Authorization(KubeModel):
    """Secrets for the sources of a template."""

    secret_ref: LocalReference | None = None
    cert_secret_ref: LocalReference | None = None
    proxy_secret_ref: LocalReference | None = None
    insecure: bool | None = None
