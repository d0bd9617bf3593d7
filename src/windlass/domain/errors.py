"""The closed failure taxonomy. Adapters and activities raise these and nothing else across a port.

    WindlassError
    ├── TransientError    goes away by itself: retried with back-off for ever
    ├── PermanentError    somebody must act: `actor` says who; retried on change, on request, and every ten minutes
    └── InterruptedStepError  the step was asked to stop; says what it left behind

An error names what is wrong, where, and what to do (`hint`). Its `reason` is the machine-readable word that
stands in the object's conditions. Texts never hold secrets and are capped at `MAX_TEXT` bytes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

MAX_TEXT: Final = 8 * 1024
"""Bytes of one error text; Temporal refuses payloads above 2 MiB and status must stay readable."""


class Category(StrEnum):
    """What to do about a failure. Litmus: would the same call succeed later with nobody touching anything?"""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    INTERRUPTED = "interrupted"


class Actor(StrEnum):
    """Who must act on a permanent failure."""

    USER = "user"  # owns the Application object
    AUTHOR = "author"  # owns the package
    ADMIN = "admin"  # owns the cluster and the Windlass installation


class Reason(StrEnum):
    """Machine-readable reasons (reference: deckhouse.md sections 1.4 and 2.6); values are wire values."""

    # ReadyOnFilesystem
    DOWNLOAD_FAILED = "DownloadFailed"
    REPOSITORY_NOT_FOUND = "RepositoryNotFound"
    PACKAGE_NOT_FOUND = "PackageNotFound"
    DIGEST_MISMATCH = "DigestMismatch"
    UNAUTHORIZED = "Unauthorized"
    HOST_NOT_ALLOWED = "HostNotAllowed"  # an index or a redirect points to a host that the repository does not list
    REPOSITORY_NOT_ALLOWED = "RepositoryNotAllowed"  # the repository does not serve the namespace
    SIGNATURE_INVALID = "SignatureInvalid"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason, no secret
    ARCHIVE_REJECTED = "ArchiveRejected"
    CREATE_PACKAGE_DIR_FAILED = "CreatePackageDirFailed"
    REMOVE_OLD_VERSION_FAILED = "RemoveOldVersionFailed"
    CREATE_SYMLINK_FAILED = "CreateSymlinkFailed"
    CHECK_VERSION_FAILED = "CheckVersionFailed"
    # ReadyInRuntime, SettingsValid
    LOAD_FAILED = "LoadFailed"
    HOOKS_DENIED = "HooksDenied"  # the package brings programs of its own, and its repository denies them
    APPLY_SETTINGS = "ApplySettings"
    VALIDATION_FAILED = "ValidationFailed"
    VALUES_SOURCE_NOT_FOUND = "ValuesSourceNotFound"
    DISABLED_BY_SCRIPT = "DisabledByScript"
    ENABLED_SCRIPT_ERROR = "EnabledScriptError"
    STATE_REJECTED = "StateRejected"
    STATE_LOST = "StateLost"
    REVISION_LOST = "RevisionLost"
    # HooksProcessed
    INIT_HOOKS_FAILED = "InitHooksFailed"
    FILTER_FAILED = "FilterFailed"
    METRICS_REJECTED = "MetricsRejected"
    STARTUP_HOOK_FAILED = "StartupHookFailed"
    BEFORE_HELM_HOOKS_FAILED = "BeforeHelmHooksFailed"
    AFTER_HELM_HOOKS_FAILED = "AfterHelmHooksFailed"
    BEFORE_DELETE_HELM_HOOKS_FAILED = "BeforeDeleteHelmHooksFailed"
    AFTER_DELETE_HELM_HOOKS_FAILED = "AfterDeleteHelmHooksFailed"
    EVENT_HOOK_FAILED = "EventHookFailed"
    HOOK_LIMIT_EXCEEDED = "HookLimitExceeded"
    # HelmApplied, ReadyInCluster
    APPLY_MANIFESTS_FAILED = "ApplyManifestsFailed"
    READINESS_TIMEOUT = "ReadinessTimeout"
    RESOURCE_FAILED = "ResourceFailed"
    UNINSTALL_FAILED = "UninstallFailed"
    RELEASE_CONFLICT = "ReleaseConflict"
    RELEASE_FOREIGN = "ReleaseForeign"  # somebody else wrote records of the release: nothing is done until `adopt`
    # targets
    TARGET_REFUSED = "TargetRefused"
    KUBECONFIG_INVALID = "KubeconfigInvalid"
    IDENTITY_MISSING = "IdentityMissing"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    # service sets
    NAME_INVALID = "NameInvalid"
    DEPENDENCY_NOT_DESIRED = "DependencyNotDesired"
    DEPENDENCY_NOT_DEFINED = "DependencyNotDefined"
    DEPENDENCY_CYCLE = "DependencyCycle"
    SEVERAL_SERVICE_SETS = "SeveralServiceSets"
    TEMPLATE_NOT_FOUND = "TemplateNotFound"
    TEMPLATE_INVALID = "TemplateInvalid"
    TEMPLATE_NOT_IN_CHAIN = "TemplateNotInChain"
    CHAIN_NOT_FOUND = "ChainNotFound"
    CHAIN_INVALID = "ChainInvalid"
    PROVIDER_NOT_FOUND = "ProviderNotFound"
    SELECTOR_MISSING = "SelectorMissing"
    PRIORITY_OUT_OF_RANGE = "PriorityOutOfRange"
    # anywhere
    API_UNAVAILABLE = "ApiUnavailable"
    API_CONFLICT = "ApiConflict"
    API_REJECTED = "ApiRejected"
    FORBIDDEN = "Forbidden"
    DOCUMENT_REJECTED = "DocumentRejected"  # YAML or JSON of others is broken, or larger than is read
    INTERRUPTED = "Interrupted"  # the step was stopped, or its worker lost while it waited
    LEASE_LOST = "LeaseLost"  # the worker gave the step back: it stops, or has lost its Lease
    WORKER_LOST = "WorkerLost"  # the worker ended, or fell silent, before the step had reported anything
    INTERNAL = "Internal"


HANDED_OVER: Final = frozenset({Reason.INTERRUPTED, Reason.LEASE_LOST})
"""Reasons that speak of the worker and not of the step: the next worker takes it up again."""


def cap(text: str, limit: int = MAX_TEXT) -> str:
    """Return ``text`` cut to ``limit`` UTF-8 bytes, with a mark that says how much is missing."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    mark = f" … ({len(raw) - limit} bytes cut)"
    return raw[: limit - len(mark.encode())].decode(errors="ignore") + mark


class WindlassError(Exception):
    """Base of the taxonomy; never raised itself.

    Attributes:
        reason: the word for conditions and metrics.
        message: what is wrong and where, capped at `MAX_TEXT` bytes, free of secrets.
        hint: what to do about it; may be empty when there is nothing to do but wait.
    """

    category: Category

    def __init__(self, reason: Reason, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = cap(message)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class TransientError(WindlassError):
    """Goes away by itself: the network, a busy API server, a conflict, a rollout that takes its time."""

    category = Category.TRANSIENT


class PermanentError(WindlassError):
    """Stays until `actor` acts: bad settings, a broken package, missing rights."""

    category = Category.PERMANENT

    def __init__(self, reason: Reason, message: str, *, hint: str = "", actor: Actor = Actor.USER) -> None:
        super().__init__(reason, message, hint=hint)
        self.actor = actor


class InterruptedStepError(WindlassError):
    """The step was asked to stop and did; the next attempt heals what it left behind."""

    category = Category.INTERRUPTED

    def __init__(self, message: str) -> None:
        super().__init__(Reason.INTERRUPTED, message)
