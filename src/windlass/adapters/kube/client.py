"""`ports.Kube` over raw JSON: no models, no informers, no retries beyond what the server asks for by Retry-After."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, cast
from urllib.parse import quote

from windlass.adapters.kube import failures, kubeconfig
from windlass.adapters.kube.answers import VERSION
from windlass.adapters.kube.discovery import Discovery
from windlass.adapters.kube.failures import Call
from windlass.adapters.kube.following import watch
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.adapters.kube.ratelimit import TokenBucket
from windlass.adapters.kube.transport import Answer, Transport
from windlass.domain.errors import PermanentError, Reason, WindlassError
from windlass.domain.text.documents import DocumentError, is_list, is_object, parse_answer
from windlass.ports.kube import Object, ObjectList, ObjectRef, ResourceInfo, WatchEvent, WatchExpiredError

PAGE: Final = 500
"""Objects per page of a list, as in client-go."""

SILENCE_SECONDS: Final = 150.0
"""A watch without a byte for so long is dead: the API server sends a bookmark about every minute."""

_JSON = "application/json"
_AS_METADATA = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_AS_METADATA_LIST = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PATCH_TYPES: Final = {"json": "application/json-patch+json", "merge": "application/merge-patch+json"}


def watch_seconds() -> float:
    """Return how long the server should serve one watch: 4 to 8 minutes, so that watches do not all end at once."""
    return random.uniform(240, 480)  # noqa: S311 - spreads load, protects nothing


class KubeClient:
    """The Kubernetes API over unstructured objects, with its own connections and rate limit.

    An async context manager. Plain writes (create, replace, patch) are recorded under the part of ``user_agent``
    before the slash as field manager; `apply` names its own.

    Args:
        transport: the HTTP session.
        silence: seconds without a byte after which a watch is given up.
        watch_for: draws the seconds after which the server ends a watch.
        discovery: of another client of the same cluster; it must stay open as long as this one.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        silence: float = SILENCE_SECONDS,
        watch_for: Callable[[], float] = watch_seconds,
        discovery: Discovery | None = None,
    ) -> None:
        self._transport = transport
        self._discovery = discovery or Discovery(self._document)
        self._silence = silence
        self._watch_for = watch_for

    @classmethod
    def from_kubeconfig(
        cls,
        source: str | Path | ApiAccess | None = None,
        *,
        qps: float = 50.0,
        burst: int = 100,
        user_agent: str = "windlass",
        context: str = "",
        clock: Callable[[], float] = time.monotonic,
        silence: float = SILENCE_SECONDS,
    ) -> Self:
        """Build a client from a kubeconfig: its path, its text, or None for KUBECONFIG, ~/.kube/config, the pod.

        Raises:
            PermanentError: API_REJECTED, the kubeconfig cannot be used; names file and field.
        """
        access = source if isinstance(source, ApiAccess) else kubeconfig.read(source, context=context)
        bucket = TokenBucket(qps, burst, clock=clock)
        return cls(Transport(access, bucket=bucket, user_agent=user_agent, clock=clock), silence=silence)

    @property
    def access(self) -> ApiAccess:
        """Where this client connects to and as whom."""
        return self._transport.access

    @property
    def discovery(self) -> Discovery:
        """What this client knows of the kinds that are served, for other clients of the same cluster."""
        return self._discovery

    def use_token(self, token: str) -> None:
        """Send this token from the next request on; watches that are open go on."""
        self._transport.use_token(token)

    async def ping(self) -> None:
        """Ask for the server's version.

        Raises:
            TransientError: API_UNAVAILABLE, no answer.
            PermanentError: FORBIDDEN, the credentials are not accepted.
        """
        call = Call(verb="get", resource=VERSION)
        answer = await self._transport.request(call, "GET", VERSION, limited=False)
        if answer.status == 401 or answer.status >= 500:
            raise failures.rejected(call, answer.status, answer.body)

    async def __aenter__(self) -> Self:
        await self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    # -- reading ---------------------------------------------------------------------------------------------------

    async def resource(self, api_version: str, kind: str) -> ResourceInfo | None:
        """Look a kind up; see `ports.Kube`. An empty ``api_version`` means the preferred version."""
        return await self._discovery.find(api_version, kind)

    async def get(self, ref: ObjectRef) -> Object | None:
        """Return the object, or None if it (or its kind) does not exist."""
        resource = await self.resource(ref.api_version, ref.kind)
        if resource is None:
            return None
        call = _call("get", resource, ref.namespace, ref.name)
        answer = await self._transport.request(call, "GET", _path(resource, ref.namespace, ref.name))
        if answer.status == 404:
            return None
        return _parsed(call, answer)

    async def list(
        self,
        api_version: str,
        kind: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> ObjectList:
        """List in pages of 500; every item carries its own apiVersion and kind. See `ports.Kube`."""
        resource = await self._served("list", api_version, kind)
        call = _call("list", resource, namespace)
        path = _path(resource, namespace)
        accept = _AS_METADATA_LIST if metadata_only else _JSON
        query = _selectors(label_selector, field_selector) | {"limit": str(PAGE)}
        async with self._transport.limits.counted() as count:
            items: list[Object] = []
            while True:
                answer = await self._transport.request(call, "GET", path, query=query, accept=accept)
                if not count(len(answer.body)):  # a server may go on giving pages
                    raise failures.endless(call)
                if answer.status == 410 and "continue" in query:
                    # The snapshot behind the pages is compacted: begin again, in one piece so that it cannot happen
                    # twice.
                    items, query = [], _selectors(label_selector, field_selector)
                    continue
                if answer.status == 404:
                    self._discovery.forget(resource.api_version)
                    raise failures.not_served(call, resource.api_version, resource.kind)
                page, metadata = _page(call, answer)
                items += [{**item, "apiVersion": resource.api_version, "kind": resource.kind} for item in page]
                if not metadata.get("continue"):
                    return ObjectList(items=items, resource_version=str(metadata.get("resourceVersion")))
                query = {**query, "continue": str(metadata["continue"])}

    async def watch(
        self,
        api_version: str,
        kind: str,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent]:
        """Stream changes with bookmarks; see `ports.Kube`. Close the iterator (`contextlib.aclosing`) when done."""
        resource = await self._served("watch", api_version, kind)
        call = _call("watch", resource, namespace)
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(self._watch_for())),
        }
        accept = f"{_AS_METADATA},{_JSON}" if metadata_only else _JSON
        path = _path(resource, namespace)
        async with self._transport.stream(call, path, query=query, accept=accept, silence=self._silence) as response:
            if response.status == 410:
                raise WatchExpiredError(f"{call}: the resourceVersion is too old")
            if response.status == 404:
                self._discovery.forget(resource.api_version)
                raise failures.not_served(call, resource.api_version, resource.kind)
            if response.status >= 400:
                raise failures.rejected(call, response.status, await response.read())
            stream = watch.events(
                response.content.iter_any(), call, api_version=resource.api_version, kind=resource.kind
            )
            async with aclosing(stream):
                async for event in stream:
                    yield event

    # -- writing ---------------------------------------------------------------------------------------------------

    async def create(self, obj: Object) -> Object:
        """POST; TransientError(API_CONFLICT) if it exists. ``generateName`` works too."""
        resource = await self._served("create", *_kind(obj))
        namespace, name = _names(obj)
        call = _call("create", resource, namespace, name)
        return _parsed(call, await self._transport.request(call, "POST", _path(resource, namespace), body=obj))

    async def create_subresource(self, ref: ObjectRef, subresource: str, body: Object) -> Object:
        """POST to a subresource that takes an object of another kind: ``token``, ``eviction``, ``binding``."""
        resource = await self._served("create", ref.api_version, ref.kind)
        call = _call("create", resource, ref.namespace, ref.name, subresource)
        path = _path(resource, ref.namespace, ref.name, subresource)
        return _parsed(call, await self._transport.request(call, "POST", path, body=body))

    async def replace(self, obj: Object, *, subresource: str = "") -> Object:
        """PUT; a stale resourceVersion and an object that is gone are both TransientError(API_CONFLICT)."""
        resource = await self._served("update", *_kind(obj))
        namespace, name = _names(obj)
        call = _call("update", resource, namespace, name, subresource)
        path = _path(resource, namespace, name, subresource)
        answer = await self._transport.request(call, "PUT", path, body=obj)
        if answer.status == 404:
            raise failures.rejected(call, 409, answer.body)
        return _parsed(call, answer)

    async def apply(
        self, obj: Object, *, field_manager: str, subresource: str = "", force: bool = True, dry_run: bool = False
    ) -> Object:
        """Server-side apply: create or update exactly the fields of ``obj``, owned by ``field_manager``.

        With ``dry_run`` everything is validated and admitted, nothing is stored, and the answer is what would be.
        """
        resource = await self._served("patch", *_kind(obj))
        namespace, name = _names(obj)
        call = _call("patch", resource, namespace, name, subresource)
        answer = await self._transport.request(
            call,
            "PATCH",
            _path(resource, namespace, name, subresource),
            query={
                "fieldManager": field_manager,
                "force": str(force).lower(),
                **({"dryRun": "All"} if dry_run else {}),
            },
            body=obj,
            content_type="application/apply-patch+yaml",
        )
        return _parsed(call, answer)

    async def patch(
        self, ref: ObjectRef, patch: Any, *, kind: Literal["json", "merge"], subresource: str = ""
    ) -> Object | None:
        """JSON patch or merge patch; None if the object (or its kind) does not exist."""
        resource = await self.resource(ref.api_version, ref.kind)
        if resource is None:
            return None
        call = _call("patch", resource, ref.namespace, ref.name, subresource)
        path = _path(resource, ref.namespace, ref.name, subresource)
        answer = await self._transport.request(call, "PATCH", path, body=patch, content_type=_PATCH_TYPES[kind])
        if answer.status == 404:
            return None
        return _parsed(call, answer)

    async def delete(
        self,
        ref: ObjectRef,
        *,
        propagation: Literal["Foreground", "Background", "Orphan"] = "Background",
        uid: str = "",
        resource_version: str = "",
    ) -> bool:
        """Delete; False if there was nothing to delete, also when another object now has the name (``uid`` given)."""
        resource = await self.resource(ref.api_version, ref.kind)
        if resource is None:
            return False
        call = _call("delete", resource, ref.namespace, ref.name)
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        given = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {name: value for name, value in given.items() if value}:
            options["preconditions"] = preconditions
        path = _path(resource, ref.namespace, ref.name)
        answer = await self._transport.request(call, "DELETE", path, body=options)
        if answer.status == 404:
            return False
        if answer.status == 409:
            # Either the precondition failed, or it is a namespace that is being deleted already.
            return await self._going(ref, uid, failures.rejected(call, answer.status, answer.body))
        _parsed(call, answer)
        return True

    async def _going(self, ref: ObjectRef, uid: str, conflict: WindlassError) -> bool:
        found = await self.get(ref)
        metadata = cast("Mapping[str, Any]", (found or {}).get("metadata") or {})
        if found is None or (uid and metadata.get("uid") != uid):
            return False
        if metadata.get("deletionTimestamp"):
            return True
        raise conflict

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _served(self, verb: str, api_version: str, kind: str) -> ResourceInfo:
        resource = await self.resource(api_version, kind)
        if resource is None:
            raise failures.not_served(Call(verb=verb, resource=kind), api_version, kind)
        return resource

    async def _document(self, path: str) -> Mapping[str, Any] | None:
        call = Call(verb="get", resource=path)
        answer = await self._transport.request(call, "GET", path, limited=False)
        return None if answer.status == 404 else _parsed(call, answer)


def _parsed(call: Call, answer: Answer) -> Object:
    if answer.status >= 400:
        raise failures.rejected(call, answer.status, answer.body, sent=answer.sent, whom=answer.whom)
    try:
        document = parse_answer(answer.body)
    except DocumentError:
        raise failures.garbled(call) from None
    if not is_object(document):
        raise failures.garbled(call, "an object")
    return document


def _page(call: Call, answer: Answer) -> tuple[list[Object], Object]:
    """Return the items of one page of a list and its metadata."""
    document = _parsed(call, answer)
    items: object = document.get("items") or []
    metadata = document.get("metadata")
    if not is_object(metadata) or not is_list(items):
        raise failures.garbled(call, "a list of objects")
    found = [item for item in items if is_object(item) and is_object(item.get("metadata"))]
    if len(found) != len(items):
        raise failures.garbled(call, "a list of objects")
    return found, metadata


def _kind(obj: Object) -> tuple[str, str]:
    return str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")


def _names(obj: Object) -> tuple[str, str]:
    metadata = cast("Mapping[str, str]", obj.get("metadata") or {})
    return metadata.get("namespace") or "", metadata.get("name") or ""


def _call(verb: str, resource: ResourceInfo, namespace: str = "", name: str = "", subresource: str = "") -> Call:
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    group = resource.api_version.rpartition("/")[0]
    return Call(verb=verb, resource=f"{plural}.{group}" if group else plural, name=name, namespace=namespace)


def _path(resource: ResourceInfo, namespace: str = "", name: str = "", subresource: str = "") -> str:
    for segment in (namespace, name):
        # The API server undoes the quoting before it splits the path: such a name would lead to another object.
        if segment in {".", ".."} or "/" in segment or "%" in segment:
            raise PermanentError(
                Reason.API_REJECTED, f"{segment[:100]!r} is no name of an object", hint="correct the name"
            )
    root = "/api/" if "/" not in resource.api_version else "/apis/"
    parts = [resource.api_version]
    if resource.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    if name:
        parts.append(quote(name, safe=""))
    return root + "/".join(parts + [part for part in (subresource.strip("/"),) if part])


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    named = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in named.items() if value}
