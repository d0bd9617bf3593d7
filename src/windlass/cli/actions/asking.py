"""Asking a lifecycle for something: create an ActionRequest, wait for its answer, print it.

The rights are those of the kubeconfig's user; neither Temporal nor the keyring is needed.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import typer

from windlass.adapters.kube.following.reflector import Listed, list_and_watch
from windlass.contracts.actions import ActionRequest, parse_request
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.ids import API_VERSION, MODULES_NAMESPACE, SYSTEM_NAMESPACE, Kind, lease_name
from windlass.ports.kube import ObjectRef

if TYPE_CHECKING:
    from windlass.cli.cluster import Cluster

NO_NEWS: Final = 3.0
"""Seconds without a sign of a watcher until its Lease is looked at."""

_NAME_MAX: Final = 40  # the server adds five characters; long names are cut at 63


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked for.

    Attributes:
        action: the action's name.
        detail: as ``spec.detail`` of ActionRequests describes it.
        reason: why.
        timeout: seconds to wait for the answer; None does not wait.
    """

    action: str
    detail: str = ""
    reason: str = ""
    timeout: float | None = None


async def ask(place: Cluster, name: str, wish: Wish) -> None:
    """Ask, and say what came of it.

    Raises:
        PermanentError: FORBIDDEN with the API server's own words; VALIDATION_FAILED, it was refused.
        TransientError: API_UNAVAILABLE, there was no answer in time; says why and what becomes of the request.
    """
    key = place.key(name)
    try:
        await place.package(name)
    except PermanentError as error:
        if error.reason is not Reason.FORBIDDEN:  # who may act on a package need not be allowed to read it
            raise
    namespace = key.namespace or MODULES_NAMESPACE
    made = await _create(place, key.kind, key.name, namespace, wish)
    if wish.timeout is None:
        typer.echo(f"{name}: {wish.action} is asked for; see `kubectl get wact {made.metadata.name} -n {namespace}`")
        return
    answered = await _answer(place, made, wish.timeout)
    status = answered.status
    message = (status.message or "") if status else ""
    if status is not None and status.accepted:
        typer.echo(f"{name}: {message}")
        return
    unknown = status is not None and status.phase == "Unknown"
    raise PermanentError(
        Reason.VALIDATION_FAILED,
        message if unknown else f"{wish.action} was refused: {message}",
        hint=f"see `windlass describe {name}{f' -n {key.namespace}' if key.namespace else ''}`",
        actor=Actor.USER,
    )


async def _create(place: Cluster, kind: Kind, name: str, namespace: str, wish: Wish) -> ActionRequest:
    spec: dict[str, Any] = {"target": {"kind": kind.value, "name": name}, "action": wish.action, "reason": wish.reason}
    if wish.detail:
        spec["detail"] = wish.detail
    if who := await who_asks(place):
        spec["who"] = who
    metadata = {"generateName": f"{wish.action}-{name[:_NAME_MAX].rstrip('-.')}-", "namespace": namespace}
    body = {"apiVersion": API_VERSION, "kind": "ActionRequest", "metadata": metadata, "spec": spec}
    try:
        return parse_request(await place.kube.create(body))
    except PermanentError as error:
        if error.reason is not Reason.FORBIDDEN:
            raise
        role = "windlass-admin" if wish.action in {"adopt", "approve"} else "windlass-operate"
        raise PermanentError(
            Reason.FORBIDDEN,
            error.message,
            hint=f"needed: `create` on actionrequests.windlass.dev in namespace {namespace}, and the verb "
            f"`{wish.action}` on {kind.value.lower()}s.windlass.dev; the ClusterRole {role} has both",
            actor=Actor.ADMIN,
        ) from error


async def who_asks(place: Cluster) -> str:
    """Return what the API server calls us: clusters that do not fill the name in want to be told it, and compare it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await place.kube.create(body)
    except WindlassError:
        return ""
    return str(answer["status"]["userInfo"].get("username") or "")


async def _answer(place: Cluster, request: ActionRequest, within: float) -> ActionRequest:
    """Wait until the request is answered, for so many seconds; say on standard error what it waits for."""
    namespace, name = request.metadata.namespace, request.metadata.name
    said: list[str] = []
    refused: list[WindlassError] = []
    looking = asyncio.create_task(_watcher_is_missing(place, said))
    watching = asyncio.create_task(_follow(place, request, said, refused))
    try:
        done, _ = await asyncio.wait({looking, watching}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if looking in done and not looking.result():
            done, _ = await asyncio.wait({watching}, timeout=max(0.0, within - NO_NEWS))
        if watching in done and (answered := watching.result()) is not None:
            return answered
        why = looking.result() if looking in done else ""
    finally:
        for task in (looking, watching):
            task.cancel()
        await asyncio.gather(looking, watching, return_exceptions=True)
    if refused:
        why = refused[-1].message
    why = why or (said[-1] if said else "no watcher has taken it up; is one running?")
    raise TransientError(
        Reason.API_UNAVAILABLE,
        f"{request.spec.action} was asked for and is not answered yet: {why}",
        hint=f"it is carried out as soon as that is possible; to take it back: "
        f"kubectl delete actionrequest {name} -n {namespace}",
    )


async def _follow(
    place: Cluster, request: ActionRequest, said: list[str], refused: list[WindlassError]
) -> ActionRequest | None:
    """Return the answered request; None if we may not follow it or it was deleted."""
    forbidden = asyncio.Event()

    def told(error: WindlassError) -> None:
        refused.append(error)
        if error.reason is Reason.FORBIDDEN:
            forbidden.set()

    async def follow() -> ActionRequest | None:
        stream = list_and_watch(
            place.kube,
            API_VERSION,
            "ActionRequest",
            namespace=request.metadata.namespace,
            field_selector=f"metadata.name={request.metadata.name}",
            on_error=told,
        )
        async with aclosing(stream):
            async for event in stream:
                for item in event.items if isinstance(event, Listed) else [event.object]:
                    if not isinstance(event, Listed) and event.type == "DELETED":
                        said.append("it was deleted")
                        return None
                    if isinstance(event, Listed) or event.type != "BOOKMARK":
                        one = parse_request(item)
                        if one.answered:
                            return one
                        message = one.status.message if one.status else None
                        if message and message not in said:
                            said.append(message)
                            sys.stderr.write(f"waiting: {message}\n")
        return None

    following, stopped = asyncio.create_task(follow()), asyncio.create_task(forbidden.wait())
    try:
        await asyncio.wait({following, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return following.result() if following.done() else None
    finally:
        for task in (following, stopped):
            task.cancel()
        await asyncio.gather(following, stopped, return_exceptions=True)


async def _watcher_is_missing(place: Cluster, said: list[str]) -> str:
    """Say after a while that no watcher runs; empty if one does, has said something, or nobody lets us know."""
    await asyncio.sleep(NO_NEWS)
    if said:
        return ""
    installation = place.context.installation
    name = lease_name(installation, "watcher")
    ref = ObjectRef(api_version="coordination.k8s.io/v1", kind="Lease", namespace=SYSTEM_NAMESPACE, name=name)
    try:
        lease = await place.kube.get(ref)
    except WindlassError:
        return ""
    spec: dict[str, Any] = (lease or {}).get("spec") or {}
    renewed = datetime.fromisoformat(spec["renewTime"]) if spec.get("renewTime") else None
    # Twice the duration: the clocks of this machine and of the watcher's may differ.
    lasting = timedelta(seconds=2 * int(spec.get("leaseDurationSeconds") or 15))
    if spec.get("holderIdentity") and renewed is not None and datetime.now(UTC) < renewed + lasting:
        return ""
    return f"no watcher of installation {installation} is running; start one: `windlass worker --role all`"
