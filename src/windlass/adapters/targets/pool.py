"""`ports.Targets`: identities of packages, shared, renewed while they are used and closed when nobody uses them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

import structlog

from windlass.adapters.kube.answers import AnswerLimits, Budget
from windlass.adapters.kube.client import KubeClient
from windlass.adapters.kube.kubeconfig import ApiAccess
from windlass.adapters.targets.accounts import Accounts
from windlass.adapters.targets.breaker import Breaker
from windlass.adapters.targets.guard import LocalAddressError
from windlass.adapters.targets.identity import ActingAs, Identity
from windlass.adapters.targets.kubeconfig import Allowed, read_foreign, with_token
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.domain.target import Account, Kubeconfig, Target
from windlass.ports.kube import ObjectRef
from windlass.ports.targets import Acting, Role

IDLE_SECONDS: Final = 180.0
"""An identity that nobody uses for so long is closed."""

IDLE_KEPT: Final = 200
"""Identities that are kept open although nobody uses them; beyond, those idle for longest are closed first."""

TEND_SECONDS: Final = 15.0
"""Seconds between two looks at what is due for a new token or for its end."""

PROBE_SECONDS: Final = 3.0
"""How long another cluster may take to answer before its use."""

CHECK_SECONDS: Final = 5.0
"""Between two looks whether an account that is refused things is still the same; so long, too, a refusal may be due to
a binding that has just been made and does not act in every API server yet."""

FOREIGN_ANSWER: Final = 16 << 20
"""Bytes of the largest answer that is read from another cluster: a page of 500 objects of 32 KiB."""

FOREIGN_LIST: Final = 64 << 20
"""Bytes of the longest list that is read from another cluster."""

FOREIGN_TOTAL: Final = 64 << 20
"""Bytes of answers from all other clusters that are being read at a time: their servers are chosen by tenants."""

type Key = tuple[str, ...]

_log = structlog.stdlib.get_logger(__name__)


class TargetPool:
    """Identities by cluster and user. An async context manager.

    Args:
        kube: Windlass' own client on the management cluster: it makes accounts and asks for tokens.
        folder: that only this pool uses; emptied at the start.
        allowed: what kubeconfigs from Secrets may hold.
        makes_accounts: whether the default account of Applications is made where it is missing; workers do, which have
            the rights for it.
        clock: seconds since the epoch; tokens expire by it.
        monotonic: seconds for everything else.
    """

    def __init__(
        self,
        kube: KubeClient,
        folder: Path,
        *,
        allowed: Allowed | None = None,
        makes_accounts: bool = True,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._folder = folder.absolute()
        self._allowed = allowed or Allowed()
        self._accounts = Accounts(kube, makes=makes_accounts, clock=clock)
        self._clock = clock
        self._monotonic = monotonic
        self._identities: dict[Key, Identity] = {}
        self._locks: dict[Key, asyncio.Lock] = {}
        self._breakers: dict[Key, Breaker] = {}
        self._limits = AnswerLimits(answer=FOREIGN_ANSWER, listed=FOREIGN_LIST, budget=Budget(FOREIGN_TOTAL))
        self._tending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(_emptied, self._folder)
        self._tending = asyncio.create_task(self._tend())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.gather(self._tending, return_exceptions=True)
        for key in list(self._identities):
            await self._identities.pop(key).close()

    @property
    def open(self) -> int:
        """How many identities are open."""
        return len(self._identities)

    # -- the port ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def acting(self, target: Target) -> AsyncGenerator[Acting]:
        """Act in the target's cluster as the target's identity; see `ports.Targets`."""
        if target.cluster is None:
            async with self.reader(target) as acting:
                yield acting
            return
        access, key = await self._kubeconfig(target, target.cluster)
        cluster = key[:4]

        async def make() -> Identity:
            return Identity(
                access, self._folder, whom=target.whom, limits=self._limits, guarded=not self._allowed.local
            )

        async with self._used(key, make) as identity:
            breaker = self._breakers.setdefault(cluster, Breaker(self._monotonic))
            await self._proved(target, identity, breaker)
            try:
                yield ActingAs(target, identity)
            except WindlassError as error:
                if error.reason in {Reason.API_UNAVAILABLE, Reason.FORBIDDEN}:
                    breaker.doubt()
                raise

    @asynccontextmanager
    async def reader(self, target: Target) -> AsyncGenerator[Acting]:
        """Act on the management cluster as the target's account; see `ports.Targets`."""
        here = replace(target, cluster=None, namespace=target.namespace if target.cluster is None else _home(target))

        async def make() -> Identity:
            access = with_token(self._kube.access, "")
            identity = Identity(access, self._folder, whom=str(target.account), discovery=self._kube.discovery)
            await self._renew(identity, target.account, ensure=True)
            return identity

        async with self._used(_key(target.account), make) as identity:
            if identity.doubted or self._clock() >= identity.renew_at:
                await self._refreshed(identity, target.account)
            try:
                yield ActingAs(here, identity)
            except WindlassError as error:
                # The account may have been made anew, which ends its tokens; its binding may be gone.
                identity.doubted = identity.doubted or error.reason is Reason.FORBIDDEN
                if error.reason is Reason.FORBIDDEN:
                    if self._monotonic() < identity.made_at + CHECK_SECONDS:
                        raise TransientError(error.reason, error.message, hint=error.hint) from None
                    await self._looked_after(identity, target.account)
                raise

    def known(self, target: Target) -> bool:
        """Say whether the identity is at hand; see `ports.Targets`."""
        identity = self._identities.get(_key(target.account))
        at_hand = identity is not None and not identity.doubted and self._clock() < identity.renew_at
        return target.cluster is None and at_hand

    # -- other clusters ------------------------------------------------------------------------------------------------

    async def _kubeconfig(self, target: Target, cluster: Kubeconfig) -> tuple[ApiAccess, Key]:
        """Read the kubeconfig as the account of the target, which needs the right to do so."""
        home = _home(target)
        where = f"Secret {cluster.name} in {home}"
        async with self.reader(target) as acting:
            kube = await acting.kube(Role.INPUTS)
            secret = await kube.get(ObjectRef(api_version="v1", kind="Secret", namespace=home, name=cluster.name))
        if secret is None:
            raise TransientError(
                Reason.IDENTITY_MISSING,
                f"spec.target.cluster: {where} does not exist",
                hint="restore it; a package whose cluster is gone for good is given up with the annotation "
                "windlass.dev/abandon",
            )
        metadata = cast("dict[str, str]", secret["metadata"])
        key = ("cluster", home, cluster.name, cluster.key, metadata["uid"], metadata["resourceVersion"])
        try:
            text = base64.b64decode(cast("dict[str, str]", secret.get("data") or {})[cluster.key], validate=True)
        except (KeyError, binascii.Error):
            raise PermanentError(
                Reason.KUBECONFIG_INVALID,
                f"spec.target.cluster: {where} has no key {cluster.key}",
                hint="store the kubeconfig under that key, or name another one",
                actor=Actor.USER,
            ) from None
        return read_foreign(text, f"{where}, key {cluster.key}", self._allowed), key

    async def _proved(self, target: Target, identity: Identity, breaker: Breaker) -> None:
        """Ask the cluster for its version unless it has answered a moment ago."""
        if breaker.proven:
            return
        if breaker.pausing:
            raise _unreachable(target, breaker.text)
        kube = await identity.kube(Role.INPUTS)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await kube.ping()
        except TimeoutError:
            breaker.failed(f"no answer within {PROBE_SECONDS:g} s")
            raise _unreachable(target, breaker.text) from None
        except TransientError as error:
            if isinstance(getattr(error.__cause__, "os_error", None), LocalAddressError):
                raise PermanentError(
                    Reason.KUBECONFIG_INVALID,
                    f"kubeconfig of cluster {target.cluster_name}: server: its name resolves to a loopback or "
                    "link-local address",
                    hint="store a kubeconfig whose server other machines can reach",
                    actor=Actor.USER,
                ) from None
            breaker.failed(error.message)
            raise _unreachable(target, breaker.text) from None
        except PermanentError as error:
            raise PermanentError(
                Reason.KUBECONFIG_INVALID,
                f"cluster {target.cluster_name} does not accept the credentials of the kubeconfig: {error.message}",
                hint="store a kubeconfig with valid credentials",
                actor=Actor.USER,
            ) from None
        breaker.answered()

    # -- pooling -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _used(self, key: Key, make: Callable[[], Awaitable[Identity]]) -> AsyncGenerator[Identity]:
        """Count a user of the identity, which is made if there is none."""
        identity = self._identities.get(key)
        if identity is None:
            async with self._locks.setdefault(key, asyncio.Lock()):
                identity = self._identities.get(key)
                if identity is None:
                    identity = self._identities[key] = await make()
            self._locks.pop(key, None)
        identity.users += 1
        try:
            yield identity
        finally:
            identity.users -= 1
            identity.idle_since = self._monotonic()

    async def _refreshed(self, identity: Identity, account: Account) -> None:
        async with self._locks.setdefault(_key(account), asyncio.Lock()):
            if identity.doubted or self._clock() >= identity.renew_at:
                await self._renew(identity, account, ensure=identity.doubted)

    async def _looked_after(self, identity: Identity, account: Account) -> None:
        """Find out whether an account that was refused something is still the one that the token belongs to.

        Raises:
            TransientError: IDENTITY_MISSING, it is gone; or it is another one by now, or has just got its rights back:
                the next try has a chance.
        """
        now = self._monotonic()
        if now < identity.checked_at + CHECK_SECONDS:
            return
        identity.checked_at = now
        before = identity.account_uid
        if await self._renew(identity, account, ensure=True) or before != identity.account_uid:
            raise TransientError(
                Reason.IDENTITY_MISSING,
                f"{account} was deleted, or its rights were, and is there again",
                hint="it is tried again",
            )

    async def _renew(self, identity: Identity, account: Account, *, ensure: bool) -> bool:
        """Get a new token; return whether something had to be made for that."""
        token = await self._accounts.token(account, ensure=ensure)
        identity.use_token(token.value, token.renew_at)
        identity.account_uid = token.account_uid
        if token.made:
            identity.made_at = self._monotonic()
        return token.made

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(TEND_SECONDS)
            try:
                for key, identity in list(self._identities.items()):
                    if identity.users and self._clock() >= identity.renew_at:
                        await self._renewed_in_time(key, identity)
                await self.close_idle()
            except Exception:  # noqa: BLE001 - it tends the identities of all packages, and must go on
                _log.exception("identities not tended")

    async def _renewed_in_time(self, key: Key, identity: Identity) -> None:
        """Renew the token of what stays open for long, such as watches; a failure is tried again."""
        _, namespace, name = key
        try:
            await self._refreshed(identity, Account(namespace=namespace, name=name))
        except WindlassError as error:
            _log.warning("token not renewed", account=name, namespace=namespace, error=str(error))

    async def close_idle(self) -> None:
        """Close the identities that nobody has used for `IDLE_SECONDS`, and those beyond `IDLE_KEPT`."""
        idle = [(one.idle_since, key) for key, one in self._identities.items() if not one.users]
        before = self._monotonic() - IDLE_SECONDS
        surplus = len(idle) - IDLE_KEPT
        for number, (since, key) in enumerate(sorted(idle)):
            if since < before or number < surplus:
                await self._identities.pop(key).close()
        unused = {key for key, one in self._breakers.items() if one.idle}
        self._breakers = {key: one for key, one in self._breakers.items() if key not in unused}


def _home(target: Target) -> str:
    return target.account.namespace


def _key(account: Account) -> Key:
    return ("account", account.namespace, account.name)


def _unreachable(target: Target, text: str) -> TransientError:
    return TransientError(
        Reason.CLUSTER_UNREACHABLE,
        f"cluster {target.cluster_name} is unreachable: {text}",
        hint="it is tried again; check that its API server runs and that the kubeconfig names it",
    )


def _emptied(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
