"""Asks the API server what an account may do to the objects of a manifest, with few requests.

A SelfSubjectRulesReview answers for a whole namespace at once. Its answer may be incomplete (authorizers other than
RBAC need not take part) and says nothing certain of what lies outside of namespaces, so only what it allows counts, and
whatever it does not allow is asked by a SelfSubjectAccessReview for each verb, resource and namespace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, cast

from windlass import __version__
from windlass.adapters.kube.client import KubeClient
from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.permissions import (
    Access,
    Item,
    Review,
    Rule,
    accesses,
    permits,
    questions,
    remedy,
    reviewed,
    told,
)
from windlass.domain.target import APPLICATION_ACCOUNT, Account, Target
from windlass.ports.kube import Kube, Object, ObjectRef

NAMESPACES: Final = 8
"""Namespaces that are asked for their rules; objects in further ones are asked for one by one."""

QUESTIONS: Final = 300
"""Access reviews for one manifest. What is left open is told by the API server when it is applied."""

AT_A_TIME: Final = 8

_AUTHORIZATION: Final = "authorization.k8s.io/v1"
_ROLE: Final = ObjectRef(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRole", name=APPLICATION_ACCOUNT)


async def items_of(refs: Iterable[ObjectRef], kube: Kube) -> tuple[Item, ...]:
    """Return the objects in the words of RBAC; objects of kinds that are not served are left out."""
    items: list[Item] = []
    for ref in refs:
        info = await kube.resource(ref.api_version, ref.kind)
        if info is not None:
            group = info.api_version.rpartition("/")[0]
            namespace = ref.namespace if info.namespaced else ""
            items.append(Item(group=group, resource=info.plural, kind=info.kind, namespace=namespace, name=ref.name))
    return tuple(items)


async def review(
    kube: Kube, refs: Iterable[ObjectRef], *, unbound: Account | None = None, roles: Kube | None = None
) -> Review:
    """Ask what the client's user may do to objects.

    Args:
        kube: acts as the account in question; one request if it may do everything in one namespace.
        refs: the objects.
        unbound: the default account of an Application's namespace if Windlass may not have bound it yet. Then the role
            counts that it is going to be bound to; if that cannot be read, what is refused there is unknown.
        roles: reads that role; ``kube`` if there is none.

    Raises:
        PermanentError: FORBIDDEN, the user may not ask.
        TransientError: API_UNAVAILABLE.
    """
    items = await items_of(refs, kube)
    namespaces = list(dict.fromkeys(item.namespace for item in items if item.namespace))[:NAMESPACES]
    found = await asyncio.gather(*(_rules(kube, namespace) for namespace in namespaces))
    rules = dict(zip(namespaces, found, strict=True))
    home = unbound.namespace if unbound else ""
    blind = False
    if home and home in rules and not permits(rules[home], _create_anything(home)):
        coming = await _role(roles or kube)
        rules[home] = [*rules[home], *(coming or ())]
        blind = coming is None
    answers = await _answers(kube, questions(items, rules))
    denied = [item for item in items if any(answers.get(one.unnamed) is False for one in accesses(item))]
    named = [one for item in denied for one in accesses(item) if one.name and answers.get(one.unnamed) is False]
    answers |= await _answers(kube, named, left=QUESTIONS - len(answers))
    if blind:
        answers = {one: None if one.namespace == home and not may else may for one, may in answers.items()}
    return reviewed(items, answers, rules)


async def refusal(kube: Kube, refs: Iterable[ObjectRef], target: Target, what: str) -> PermanentError | None:
    """Return the error that names every object which the target's identity may not install; None if there is none.

    Args:
        kube: acts as that identity.
        refs: the objects.
        target: of the package.
        what: is refused, as the sentence's subject.

    Raises:
        PermanentError, TransientError: as `review`.
    """
    found = (await review(kube, refs)).forbidden
    if not found:
        return None
    message = f"{what} failed: {told(found, target.whom)}"
    return PermanentError(Reason.FORBIDDEN, message, hint=remedy(found, target), actor=Actor.ADMIN)


@asynccontextmanager
async def impersonating(kube: KubeClient, account: Account) -> AsyncGenerator[KubeClient]:
    """Give a client that acts as a service account, for users with the right to impersonate it."""
    user = f"system:serviceaccount:{account.namespace}:{account.name}"
    access = replace(kube.access, impersonate=user)
    async with KubeClient.from_kubeconfig(access, user_agent=f"windlass-cli/{__version__}") as client:
        yield client


async def _rules(kube: Kube, namespace: str) -> list[Rule]:
    body = {"apiVersion": _AUTHORIZATION, "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    return _read(_status(await kube.create(body)).get("resourceRules"))


def _status(answer: Object) -> Object:
    return cast("Object", answer.get("status") or {})


async def _role(kube: Kube) -> list[Rule] | None:
    """Return the rules that default accounts of Applications are bound to; None if they may not be read."""
    try:
        role = await kube.get(_ROLE)
    except PermanentError as error:
        if error.reason is not Reason.FORBIDDEN:
            raise
        return None
    return _read(role.get("rules")) if role is not None else None


def _read(rules: Any) -> list[Rule]:
    def texts(rule: Object, name: str) -> frozenset[str]:
        return frozenset(map(str, cast("Sequence[Any]", rule.get(name) or ())))

    return [
        Rule(
            verbs=texts(rule, "verbs"),
            groups=texts(rule, "apiGroups"),
            resources=texts(rule, "resources"),
            names=texts(rule, "resourceNames"),
        )
        for rule in cast("Sequence[Object]", rules or ())
    ]


async def _answers(kube: Kube, asked: Sequence[Access], *, left: int = QUESTIONS) -> dict[Access, bool | None]:
    slots = asyncio.Semaphore(AT_A_TIME)

    async def answer(access: Access) -> bool:
        async with slots:
            return await _may(kube, access)

    accesses_asked = list(dict.fromkeys(asked))[: max(left, 0)]
    found = await asyncio.gather(*map(answer, accesses_asked))
    return dict(zip(accesses_asked, found, strict=True))


async def _may(kube: Kube, access: Access) -> bool:
    attributes = {
        "verb": access.verb,
        "group": access.group,
        "resource": access.resource,
        "namespace": access.namespace,
        "name": access.name,
    }
    spec = {"resourceAttributes": attributes}
    answer = await kube.create({"apiVersion": _AUTHORIZATION, "kind": "SelfSubjectAccessReview", "spec": spec})
    return bool(_status(answer).get("allowed"))


def _create_anything(namespace: str) -> Access:
    """What the default account of Applications may do as soon as it is bound."""
    return Access(verb="create", group="", resource="configmaps", namespace=namespace)
