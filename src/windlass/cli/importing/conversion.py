"""From an object of K0rdent (kcm) to one of Windlass: what moves over, and a note for everything that does not.

Field names are the same, so that an object is its own translation as far as the schema of the kind has its fields. What
the schema does not have is left out with a note; nothing is left out in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from pydantic import ValidationError

from windlass.contracts.crds import object_schema
from windlass.contracts.fleet.resources import FLEET
from windlass.contracts.objects import KubeObject
from windlass.contracts.schema_rules import DNS_SUBDOMAIN_PATTERN
from windlass.domain.ids import API_VERSION, is_dns_label
from windlass.domain.servicesets.models import ServiceTemplate
from windlass.domain.servicesets.verdicts import template_problem

KCM_GROUP: Final = "k0rdent.mirantis.com"
KINDS: Final[dict[str, type[KubeObject]]] = {one.model.__name__: one.model for one in FLEET}

_NAME: Final = re.compile(DNS_SUBDOMAIN_PATTERN)
KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations")
_SERVER: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"}
)
"""Metadata that the API server writes."""

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MANAGEMENT_LABEL: Final = f"{KCM_GROUP}/management-cluster"
"""Label of the management cluster, which kcm selects like any other."""

_CREDENTIAL_KEY: Final = "value"
"""Key of a kubeconfig in its Secret, by the convention of Cluster API, which kcm keeps."""

type Object = dict[str, Any]


@dataclass(frozen=True)
class Converted:
    """What became of one object.

    Attributes:
        kind: of the object.
        name: ``namespace/name``, or the name alone.
        object: the object of Windlass; None if there can be none.
        notes: what did not move over, what was added, and what is wrong, each as ``field: what``.
    """

    kind: str
    name: str
    object: Object | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Credentials:
    """Which Secret the Credentials among the manifests name: (namespace, Credential) to the Secret's name."""

    secrets: Mapping[tuple[str, str], str]

    @classmethod
    def among(cls, objects: Iterator[Object]) -> Credentials:
        """Read the Credentials; those of other identities than Secrets say nothing of a kubeconfig."""
        found: dict[tuple[str, str], str] = {}
        for one in objects:
            reference = _part(_part(one, "spec"), "identityRef")
            if one.get("kind") == "Credential" and reference.get("kind") == "Secret" and reference.get("name"):
                metadata = _part(one, "metadata")
                found[str(metadata.get("namespace") or ""), str(metadata.get("name"))] = str(reference["name"])
        return cls(found)


def convert(document: Object, credentials: Credentials) -> Converted:
    """Return the object of Windlass for one of kcm.

    Args:
        document: an object of the group `KCM_GROUP`.
        credentials: those among the manifests, which say how clusters are reached.
    """
    kind = str(document.get("kind"))
    metadata = _part(document, "metadata")
    name = "/".join(str(part) for part in (metadata.get("namespace"), metadata.get("name")) if part) or "without a name"
    if kind not in KINDS:
        return Converted(kind, name, None, ("the kind has no counterpart",))
    notes = list(_metadata_notes(metadata))
    if document.get("status"):
        notes.append("status: left out, since Windlass reports its own")
    lost: list[str] = []
    spec = _kept(_part(document, "spec"), _spec_schema(kind), "spec", lost)
    notes += [f"{path}: left out, it has no counterpart" for path in lost]
    notes += [f"{key}: left out, it has no counterpart" for key in document if key not in _TOP]
    made: Object = {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": _metadata(metadata),
        "spec": spec,
    }
    notes += list(_ADJUSTED[kind](made, credentials)) if kind in _ADJUSTED else []
    odd = [f"{key}: is no object" for key in ("metadata", "spec") if not isinstance(document.get(key) or {}, dict)]
    if wrong := [*odd, *_wrong(kind, made)]:
        return Converted(kind, name, None, (*notes, *wrong))
    return Converted(kind, name, made, tuple(notes))


_TOP: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


def _metadata(metadata: Mapping[str, Any]) -> Object:
    kept = {key: metadata[key] for key in KEPT_METADATA if metadata.get(key)}
    annotations = {key: value for key, value in _part(kept, "annotations").items() if key != _LAST_APPLIED}
    return {**{key: value for key, value in kept.items() if key != "annotations"}, **_unless_empty(annotations)}


def _unless_empty(annotations: Object) -> Object:
    return {"annotations": annotations} if annotations else {}


def _metadata_notes(metadata: Mapping[str, Any]) -> Iterator[str]:
    written = [key for key in metadata if key in _SERVER]
    if written:
        yield f"metadata.{', metadata.'.join(written)}: left out, the API server writes them"
    for key in metadata:
        if key not in KEPT_METADATA and key not in _SERVER:
            yield f"metadata.{key}: left out, it belongs to K0rdent"
    for key in _part(dict(metadata), "annotations"):
        if key == _LAST_APPLIED:
            yield f"metadata.annotations[{key}]: left out, kubectl writes it"
        elif key.partition("/")[0] == KCM_GROUP:
            yield f"metadata.annotations[{key}]: kept, Windlass does not read it"


@cache
def _spec_schema(kind: str) -> Object:
    return object_schema(KINDS[kind])["properties"]["spec"]


def _kept(value: Any, schema: Mapping[str, Any], path: str, lost: list[str]) -> Any:
    """Return what the API server would keep of ``value``; paths of the rest are added to ``lost``."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, dict):
        fields: Mapping[str, Any] = schema.get("properties", {})
        rest = schema.get("additionalProperties")
        kept: Object = {}
        for key, item in cast("Object", value).items():
            inner = fields.get(key, rest)
            if item is None:
                continue
            if not isinstance(inner, dict):
                lost.append(f"{path}.{key}")
                continue
            kept[key] = _kept(item, cast("Object", inner), f"{path}.{key}", lost)
        return kept
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        entries = enumerate(cast("list[Any]", value))
        return [_kept(entry, schema["items"], f"{path}[{number}]", lost) for number, entry in entries]
    return cast("Any", value)


def _cluster(made: Object, credentials: Credentials) -> Iterator[str]:
    """Add how the cluster is reached: from its Credential, else by the convention of Cluster API."""
    spec, metadata = made["spec"], made["metadata"]
    for field in ("template", "config"):
        if field in spec:
            yield f"spec.{field}: kept and not used, since Windlass adopts clusters and creates none"
    if _part(_part(spec, "config"), "clusterLabels"):
        yield "spec.config.clusterLabels: selectors of MultiClusterServices read metadata.labels; repeat them there"
    if "kubeconfigSecret" in spec:
        return
    credential = str(spec.get("credential") or "")
    secret = credentials.secrets.get((str(metadata.get("namespace") or ""), credential))
    why = f"as Credential {credential} says" if secret else "the name that Cluster API gives it; check that it exists"
    if credential:
        yield "spec.credential: kept and not used, see spec.kubeconfigSecret"
    name = secret or f"{metadata.get('name')}-kubeconfig"
    spec["kubeconfigSecret"] = {"name": name, "key": _CREDENTIAL_KEY}
    yield f"spec.kubeconfigSecret: added, Secret {name}, key {_CREDENTIAL_KEY}: {why}"


def _provider(made: Object, _: Credentials) -> Iterator[str]:
    adapter = _part(made["spec"], "adapter")
    if adapter:
        yield (
            f"spec.adapter: kept; {adapter.get('kind')} {adapter.get('name')} must read objects of {API_VERSION} "
            "to deliver them, K0rdent's own does not"
        )


def _owner(made: Object, _: Credentials) -> Iterator[str]:
    if _MANAGEMENT_LABEL in json.dumps(_part(made["spec"], "clusterSelector")):
        yield (
            f"spec.clusterSelector: kept; no ClusterDeployment has the label {_MANAGEMENT_LABEL}, so set "
            "spec.serviceSpec.provider.selfManagement for the management cluster"
        )


def _template(made: Object, _: Credentials) -> Iterator[str]:
    try:
        problem = template_problem(ServiceTemplate.from_object(made))
    except ValidationError:
        return  # told with everything else that is wrong
    if problem:
        yield f"kept, and not valid for now: {problem}"


_ADJUSTED: Final = {
    "ServiceTemplate": _template,
    "ClusterDeployment": _cluster,
    "MultiClusterService": _owner,
    "StateManagementProvider": _provider,
}


def _wrong(kind: str, made: Object) -> Iterator[str]:
    """Yield what the API server would refuse."""
    name, namespace = (made["metadata"].get(key) for key in ("name", "namespace"))
    if not name:
        yield "metadata.name: is missing"
    elif not _NAME.fullmatch(str(name)):
        yield f"metadata.name: {name!r} is no name that the API server takes; fill in its variables first"
    if namespace and not is_dns_label(str(namespace)):
        yield f"metadata.namespace: {namespace!r} is no namespace; fill in its variables first"
    try:
        KINDS[kind].model_validate(made, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False, include_context=False):
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in one["loc"]).lstrip(".")
            text = one["msg"].removeprefix("Value error, ")
            yield f"{path}: {text[:1].lower()}{text[1:]}"


def _part(document: Mapping[str, Any], name: str) -> Object:
    value = document.get(name)
    return cast("Object", value) if isinstance(value, dict) else {}
