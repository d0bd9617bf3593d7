"""Connects to Temporal: one way for worker, watcher, CLI and web."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, Interceptor
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfigProfile
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from windlass.domain.errors import Actor, PermanentError, Reason, TransientError, WindlassError
from windlass.temporal.codec import not_counted
from windlass.temporal.converter import data_converter
from windlass.temporal.keyring import Keyring

CONNECT_TIMEOUT: Final = 5.0
"""Seconds until an unreachable server is reported."""

_REFUSED: Final = frozenset({RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED})
_REFUSED_WORDS: Final = frozenset({"Unauthenticated", "PermissionDenied"})
_STATUS: Final = re.compile(r"Status \{ code: (\w+)")


@dataclass(frozen=True, kw_only=True)
class TemporalTarget:
    """Which Temporal server and namespace, and how to be let in.

    Attributes:
        address: ``host:port`` of the frontend.
        namespace: Temporal namespace.
        tls: False for clear text, True for TLS with the system's certificates, else the certificates to use.
        api_key: sent as bearer token; empty for none.
        metadata: further gRPC headers.
    """

    address: str
    namespace: str = "default"
    tls: bool | TLSConfig = field(default=False, repr=False)
    api_key: str = field(default="", repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, profile: str | None = None) -> TemporalTarget | None:
        """Read Temporal's environment configuration: ``TEMPORAL_*`` variables over the profile file.

        Args:
            environ: the process's environment.
            profile: profile in the file; None for ``TEMPORAL_PROFILE`` or ``default``.

        Returns:
            The target, or None if neither variables nor file name an address: nobody brings a server along.

        Raises:
            PermanentError: VALIDATION_FAILED, the file or a variable cannot be read.
        """
        try:
            loaded = ClientConfigProfile.load(profile, override_env_vars=dict(environ))
            options = loaded.to_client_connect_config()
        except (RuntimeError, OSError) as error:
            # The binding reports every fault in file or variables as RuntimeError; OSError: a certificate file.
            raise PermanentError(
                Reason.VALIDATION_FAILED,
                f"Temporal's environment configuration cannot be used: {error}",
                hint="check the TEMPORAL_* variables and the profile file (TEMPORAL_CONFIG_FILE)",
                actor=Actor.ADMIN,
            ) from error
        address = options.get("target_host", "")
        if not address:
            return None
        target = cls(address=address, tls=options.get("tls", False), metadata=options.get("rpc_metadata", {}))
        return replace(
            target,
            namespace=options.get("namespace") or target.namespace,
            api_key=options.get("api_key", ""),
        )


def identity(role: str) -> str:
    """Return what Temporal shows as the doer of an action: ``windlass-<role>@<host>:<pid>``."""
    return f"windlass-{role}@{socket.gethostname()}:{os.getpid()}"


async def connect(
    target: TemporalTarget,
    *,
    keyring: Keyring | None,
    role: str,
    interceptors: Sequence[Interceptor] = (),
    runtime: Runtime | None = None,
    accept_plain: bool = False,
    on_refusal: Callable[[], None] = not_counted,
    timeout: float = CONNECT_TIMEOUT,  # noqa: ASYNC109 - bounds one connect, and its text names the figure
) -> Client:
    """Connect and make sure that the namespace is there.

    Args:
        target: the server and namespace.
        keyring: keys of the payload codec; None for who only asks about the server, and reads no payload.
        role: worker, watcher, cli or web; part of the identity.
        interceptors: client interceptors; those that are worker interceptors too reach workers made of this client.
        runtime: SDK runtime (telemetry); None for the process's default.
        accept_plain: take payloads that are not encoded too; see `PayloadCodec`.
        on_refusal: called for each payload that is not accepted.
        timeout: seconds for everything.

    Raises:
        TransientError: API_UNAVAILABLE, no answer in time; naming the address.
        PermanentError: FORBIDDEN, the credentials are refused; VALIDATION_FAILED, the namespace does not exist.
    """
    try:
        async with asyncio.timeout(timeout):
            client = await Client.connect(
                target.address,
                namespace=target.namespace,
                api_key=target.api_key or None,
                tls=target.tls,
                rpc_metadata=target.metadata,
                data_converter=data_converter(keyring, accept_plain=accept_plain, on_refusal=on_refusal)
                if keyring is not None
                else DataConverter.default,
                interceptors=interceptors,
                identity=identity(role),
                runtime=runtime,
                connect_timeout=timedelta(seconds=timeout),
            )
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=target.namespace))
    except RPCError as error:
        raise _explained(error, target) from error
    except (RuntimeError, TimeoutError) as error:
        # The binding reports a failed connect as RuntimeError; the status of an answer stands in its text only.
        found = _STATUS.search(str(error))
        if found is not None and found[1] in _REFUSED_WORDS:
            raise _refused(target) from error
        raise _unreachable(target, timeout) from error
    return client


def _unreachable(target: TemporalTarget, timeout: float) -> TransientError:
    return TransientError(
        Reason.API_UNAVAILABLE,
        f"Temporal does not answer at {target.address} within {timeout:g} s (TLS {'on' if target.tls else 'off'})",
        hint="start it with `windlass up`, or check TEMPORAL_ADDRESS, TEMPORAL_TLS and the credentials",
    )


def _refused(target: TemporalTarget) -> PermanentError:
    return PermanentError(
        Reason.FORBIDDEN,
        f"Temporal at {target.address} refuses the credentials for namespace {target.namespace!r}",
        hint="check TEMPORAL_API_KEY or the client certificate",
        actor=Actor.ADMIN,
    )


def _explained(error: RPCError, target: TemporalTarget) -> WindlassError:
    if error.status in _REFUSED:
        return _refused(target)
    if error.status is RPCStatusCode.NOT_FOUND:
        return PermanentError(
            Reason.VALIDATION_FAILED,
            f"Temporal at {target.address} has no namespace {target.namespace!r}",
            hint=f"set TEMPORAL_NAMESPACE or run `temporal operator namespace create --namespace {target.namespace}`",
            actor=Actor.ADMIN,
        )
    return TransientError(
        Reason.API_UNAVAILABLE,
        f"Temporal at {target.address} answers {error.status.name} when asked for namespace {target.namespace!r}",
        hint="it may still be starting; look at its log",
    )
