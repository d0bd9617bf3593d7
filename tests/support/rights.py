"""Accounts and people with tokens of their own on the real API server, and what they are refused."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from support.waiting import eventually
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.domain.errors import PermanentError, WindlassError
from windlass.domain.ids import API_VERSION
from windlass.observers.watcher.policies import SETTLING
from windlass.ports.kube import Object, ObjectRef

DEPLOY = Path(__file__).parents[2] / "deploy"
RBAC = "rbac.authorization.k8s.io/v1"
SYSTEM = "windlass-system"
MODULES = "windlass-modules"
FOR_PACKAGES = {"windlass.dev/identity": "package"}

type Attempt = Callable[[], Awaitable[object]]


def documents(*files: str) -> list[Object]:
    """Read manifests of ``deploy/``."""
    return [one for file in files for one in yaml.safe_load_all((DEPLOY / file).read_text()) if one]


# -- objects ---------------------------------------------------------------------------------------------------------


def package(kind: str, name: str, namespace: str = "", /, **target: Any) -> Object:
    """Return an Application or Module of an installation that nobody runs; ``target`` is its ``spec.target``."""
    spec: Object = {"package": {"repository": "none", "name": name, "version": "1.0.0"}}
    if target:
        spec["target"] = target
    metadata = {"name": name, "labels": {"windlass.dev/installation": "nobodys"}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def request(action: str, name: str, namespace: str, *, kind: str = "Application", **spec: Any) -> Object:
    """Return an ActionRequest with a name of its own."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ActionRequest",
        "metadata": {"generateName": f"{action}-", "namespace": namespace},
        "spec": {"action": action, "target": {"kind": kind, "name": name}, "reason": "test", **spec},
    }


def plain(kind: str, namespace: str, name: str = "", *, api_version: str = "v1", **fields: Any) -> Object:
    """Return an object; without ``name`` the server makes one up, so that it can be created again and again."""
    metadata: Object = {"name": name} if name else {"generateName": "attack-"}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= fields.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def binding(namespace: str, role: str, account: str, *, account_namespace: str = "", **metadata: Any) -> Object:
    """Return a RoleBinding, or for an empty namespace a ClusterRoleBinding, of a service account to a ClusterRole."""
    name = metadata.pop("name", "")
    return plain(
        "RoleBinding" if namespace else "ClusterRoleBinding",
        namespace,
        name,
        api_version=RBAC,
        metadata=metadata,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": account_namespace or namespace}],
    )


def account_ref(namespace: str, name: str) -> ObjectRef:
    """Name a service account."""
    return ObjectRef(api_version="v1", kind="ServiceAccount", namespace=namespace, name=name)


# -- who -------------------------------------------------------------------------------------------------------------


def user_name(namespace: str, account: str) -> str:
    """Return what the API server calls a service account."""
    return f"system:serviceaccount:{namespace}:{account}"


async def token(kube: KubeClient, namespace: str, account: str, *, labels: dict[str, str] | None = None) -> str:
    """Ask for a token of a service account, as ``kube``."""
    body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    if labels:
        body["metadata"] = {"labels": labels}
    answer = await kube.create_subresource(account_ref(namespace, account), "token", body)
    return answer["status"]["token"]


@asynccontextmanager
async def acting(kube: KubeClient, namespace: str, account: str) -> AsyncIterator[KubeClient]:
    """Give a client with a token of the service account, which is made if it is not there."""
    await kube.apply(plain("ServiceAccount", namespace, account), field_manager="tests")
    known = kube.access
    access = ApiAccess(server=known.server, ca_pem=known.ca_pem, token=await token(kube, namespace, account))
    async with KubeClient.from_kubeconfig(access, qps=500, burst=1000, user_agent="tests") as client:
        yield client


async def allowed(kube: KubeClient, verb: str, resource: str, namespace: str = "", name: str = "") -> bool:
    """Ask the API server what the client's user may do; ``resource`` is ``plural[/subresource][.group]``."""
    plural, _, group = resource.partition(".")
    plural, _, subresource = plural.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "namespace": namespace,
        "name": name,
    }
    review = await kube.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
    )
    return bool(review["status"]["allowed"])


async def refused(attempt: Attempt, *said: str) -> WindlassError:
    """Wait until the API server refuses the attempt with each of ``said`` in its answer.

    Policies and roles act a second or two after they are made, so the attempt may succeed at first: it must be one that
    can be made again.
    """
    last: list[str] = []

    async def asked() -> WindlassError | None:
        try:
            await attempt()
        except PermanentError as error:
            last[:] = [error.message]
            return error if all(text in error.message for text in said) else None
        last[:] = ["it was allowed"]
        return None

    try:
        return await eventually(asked, 20, every=0.2)  # type: ignore[return-value]
    except AssertionError as error:
        raise AssertionError(f"not refused with {said}; last: {last}") from error


def fresh(prefix: str) -> str:
    """Return a name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def namespace(kube: KubeClient, prefix: str) -> AsyncIterator[str]:
    """Give a namespace of its own and delete it at the end."""
    name = fresh(prefix)
    await kube.create(plain("Namespace", "", name))
    # The controller manager makes the account `default`; who asks for its token must find it.
    await eventually(lambda: kube.get(account_ref(name, "default")))
    try:
        yield name
    finally:
        applications = await kube.list(API_VERSION, "Application", namespace=name)
        for one in applications.items:
            ref = ObjectRef(api_version=API_VERSION, kind="Application", namespace=name, name=one["metadata"]["name"])
            await kube.patch(ref, {"metadata": {"finalizers": None}}, kind="merge")
        await kube.delete(ObjectRef(api_version="v1", kind="Namespace", name=name))


async def policies_settled(kube: KubeClient) -> None:
    """Wait until requests are trusted on a stack that has just started."""
    [_, bound, *_] = documents("policies/actions.yaml")
    ref = ObjectRef(api_version=bound["apiVersion"], kind=bound["kind"], name=bound["metadata"]["name"])

    async def old() -> bool:
        found = await kube.get(ref)
        made = datetime.fromisoformat(found["metadata"]["creationTimestamp"]) if found else datetime.now(UTC)
        return datetime.now(UTC) > made + SETTLING + timedelta(seconds=1)

    await eventually(old, what="the policies are old enough")
