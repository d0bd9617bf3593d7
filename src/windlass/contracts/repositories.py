"""The Kubernetes object ``PackageRepository``: where packages come from, and what was found there."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, ConfigDict, Field, StringConstraints

from windlass.contracts.objects import (
    DNS_SUBDOMAIN_PATTERN,
    Condition,
    Duration,
    FailureStatus,
    KubeModel,
    KubeObject,
    SeenStatus,
    WorkflowStatus,
    seconds,
)
from windlass.contracts.repository_access import AllowedNamespaces
from windlass.domain.ids import DEFAULT_INSTALLATION, INSTALLATION_LABEL
from windlass.domain.packages.admission import EVERYONE, NOBODY, Audience

LISTED: Final = 200
"""Packages that stand in status; how many there are is told in full."""

SCAN_INTERVAL_SECONDS: Final = 600.0
"""Between two scans, unless the object says otherwise."""

_AUTHORITY: Final = r"[^/@\s?#]+"
_WEB_PATTERN: Final = rf"^https?://{_AUTHORITY}(/[^\s?#]*)?$"
_OCI_PATTERN: Final = rf"^oci://{_AUTHORITY}(/[a-z0-9]+([._/-]+[a-z0-9]+)*)?/?$"

_HTTPS: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {
            "rule": "self.url.startsWith('https://') || (has(self.insecure) && self.insecure)",
            "message": "url must be https unless insecure is true",
        }
    ]
}

type SecretName = Annotated[str, StringConstraints(pattern=DNS_SUBDOMAIN_PATTERN, min_length=1, max_length=253)]


type ArchiveHost = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?|\[[0-9a-f:.]+\](:[0-9]{1,5})?)$",
        min_length=1,
        max_length=262,
    ),
]


class FileRepository(KubeModel):
    """A folder that every worker can read."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = Field(
        description="Absolute path of a folder with <package>/<version>/ folders or <package>-<version>.tgz archives.",
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self.startsWith('/') && !self.split('/').exists(part, part == '..')",
                    "message": "must be an absolute path without '..'",
                }
            ]
        },
    )


class SecretReference(KubeModel):
    """A Secret in the namespace of the installation (windlass-system)."""

    name: SecretName = Field(description="Name of the Secret.")


class KeyReference(KubeModel):
    """One key of a Secret in the namespace of the installation (windlass-system)."""

    name: SecretName = Field(description="Name of the Secret.")
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", min_length=1, max_length=253)] = Field(
        default="cosign.pub", description="Key in the Secret's data."
    )


class _Remote(KubeModel):
    insecure: bool = Field(default=False, description="Speak plain HTTP. For tests: nothing is encrypted.")
    secret_ref: SecretReference | None = Field(
        default=None,
        description="Secret with the login: of type kubernetes.io/basic-auth or kubernetes.io/dockerconfigjson, or "
        "with the keys username and password, or token.",
    )
    cert_secret_ref: SecretReference | None = Field(
        default=None,
        description="Secret with ca.crt (authorities besides the system's), and tls.crt and tls.key (our own "
        "certificate and its key); each may be missing.",
    )


class OciRepository(_Remote):
    """An OCI registry, below a path."""

    url: Annotated[str, StringConstraints(pattern=_OCI_PATTERN, max_length=1024)] = Field(
        description="oci://host[:port]/path; packages are the images below the path, versions are their tags."
    )


class HelmRepository(_Remote):
    """A Helm repository."""

    model_config = ConfigDict(json_schema_extra=_HTTPS)

    url: Annotated[str, StringConstraints(pattern=_WEB_PATTERN, max_length=1024)] = Field(
        description="Address of the folder with index.yaml."
    )
    archive_hosts: list[ArchiveHost] | None = Field(
        default=None,
        max_length=32,
        description="Further hosts that archives may come from, as host or host:port; by default index and redirects "
        "may point to the repository's own host only. '*' admits any host. The login goes to the own host only.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class HttpRepository(_Remote):
    """Archives on a web server."""

    model_config = ConfigDict(json_schema_extra=_HTTPS)

    url: Annotated[str, StringConstraints(pattern=_WEB_PATTERN, max_length=1024)] = Field(
        description="Address of a folder with <package>/<version>.tgz or <package>-<version>.tgz, or an address with "
        "{package} and {version} in it."
    )


class VerificationKey(KubeModel):
    """Where the public key is."""

    secret_ref: KeyReference


class Verification(KubeModel):
    """Which signature packages have to carry."""

    provider: Literal["cosign"] = Field(description="Whose signatures.")
    key: VerificationKey = Field(description="ECDSA P-256 public key in PEM, as cosign generate-key-pair writes it.")


class PackageRepositorySpec(KubeModel):
    """Where packages come from."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                *(
                    {
                        "rule": f"self.kind != '{kind}' || has(self.{kind})",
                        "message": f"spec.{kind} is required for kind {kind}",
                    }
                    for kind in ("file", "oci", "helm", "http")
                ),
                {"rule": "!has(self.verify) || self.kind == 'oci'", "message": "spec.verify is for kind oci only"},
            ]
        }
    )

    kind: Literal["file", "oci", "helm", "http"] = Field(description="Which kind of repository this is.")
    file: FileRepository | None = Field(default=None, description="Settings of kind file.")
    oci: OciRepository | None = Field(default=None, description="Settings of kind oci.")
    helm: HelmRepository | None = Field(default=None, description="Settings of kind helm.")
    http: HttpRepository | None = Field(default=None, description="Settings of kind http.")
    verify: Verification | None = Field(default=None, description="Signature that packages have to carry.")
    allowed_namespaces: AllowedNamespaces | None = Field(
        default=None,
        description="Namespaces whose Applications may use the repository; Modules count as windlass-modules. Absent: "
        "all of them, none if there is a secretRef or certSecretRef.",
    )
    hooks: Literal["Allow", "Deny"] = Field(
        default="Allow",
        description="Whether packages may bring programs of their own (hooks, the script enabled). Helm's chart hooks "
        "are objects in the cluster and not concerned.",
    )
    interval: Duration | None = Field(default=None, description="Time between two scans; 10m if absent.")

    @property
    def scan_interval(self) -> float:
        """Seconds between two scans."""
        return SCAN_INTERVAL_SECONDS if self.interval is None else seconds(self.interval)

    @property
    def audience(self) -> Audience:
        """The namespaces that it serves: unless it says so itself, none of them with a login, else all.

        A Secret of certSecretRef may hold a client certificate, which is a login too; what it does hold is not known
        where this is asked.
        """
        if self.allowed_namespaces is not None:
            return self.allowed_namespaces.audience
        remote = self.remote
        return NOBODY if remote and (remote.secret_ref or remote.cert_secret_ref) else EVERYONE

    @property
    def remote(self) -> OciRepository | HelmRepository | HttpRepository | None:
        """Where the repository is if it is no folder."""
        found = {"oci": self.oci, "helm": self.helm, "http": self.http}
        return found.get(self.kind)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the Secrets that are referred to, each once."""
        remote = self.remote
        names = [ref.name for ref in (remote.secret_ref, remote.cert_secret_ref) if ref] if remote else []
        if self.verify is not None:
            names.append(self.verify.key.secret_ref.name)
        return tuple(dict.fromkeys(names))


class ListedPackage(KubeModel):
    """One package of a repository."""

    name: str
    version: str = Field(description="The newest version.")
    versions: int = Field(ge=0, description="How many versions there are.")
    digest: str = Field(default="", description="Changes whenever what the repository has of the package changes.")


class PackageRepositoryStatus(KubeModel):
    """What the last scan found."""

    observed_generation: int | None = Field(default=None, ge=0)
    conditions: list[Condition] | None = Field(
        default=None,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    last_scan: AwareDatetime | None = Field(default=None, description="When the last scan succeeded.")
    count: int | None = Field(default=None, ge=0, description="How many packages there are.")
    digest: str | None = Field(default=None, description="Changes whenever what the repository has changes.")
    packages: list[ListedPackage] | None = Field(
        default=None,
        max_length=LISTED,
        description="The first packages by name.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    failure: FailureStatus | None = None
    seen: SeenStatus | None = None
    workflow: WorkflowStatus | None = None


class PackageRepository(KubeObject):
    """A source of packages for all namespaces."""

    kind: Literal["PackageRepository"] = "PackageRepository"
    spec: PackageRepositorySpec
    status: PackageRepositoryStatus | None = None

    @property
    def installation(self) -> str:
        """The installation that scans it."""
        return self.metadata.labels.get(INSTALLATION_LABEL, DEFAULT_INSTALLATION)

    def offer(self, package: str) -> str:
        """Return what changes whenever a range of ``package`` may come to another version; empty before a scan."""
        status = self.status
        if status is None:
            return ""
        listed = next((one for one in status.packages or [] if one.name == package), None)
        return listed.digest if listed else status.digest or ""


def to_status(status: PackageRepositoryStatus) -> dict[str, Any]:
    """Return the JSON form of a whole status, without what is absent."""
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
