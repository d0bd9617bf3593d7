"""The one place that calls the untyped `kubernetes` package: credentials that a plugin hands out.

Everything else speaks JSON over HTTP (`windlass.adapters.kube.transport`). The import is inside the function because
it costs a second and 30 MB, and most kubeconfigs name no plugin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windlass.domain.errors import Actor, PermanentError, Reason


@dataclass(frozen=True, kw_only=True)
class PluginCredentials:
    """What an ``exec`` or ``auth-provider`` user yields: a header value, or a client certificate and key (PEM)."""

    authorization: str = field(default="", repr=False)
    certificate_pem: str = ""
    key_pem: str = field(default="", repr=False)


async def plugin_credentials(kubeconfig: Mapping[str, Any]) -> PluginCredentials:
    """Run the plugin of a kubeconfig's current user.

    Raises:
        PermanentError: FORBIDDEN (actor admin), the plugin failed. Its own words are left out: they may hold a token.
    """
    # The only late imports of the adapter; see the module's docstring.
    from kubernetes.aio import client, config  # noqa: PLC0415

    loader: Any = config
    configuration: Any = client.Configuration()
    try:
        await loader.load_kube_config_from_dict(dict(kubeconfig), client_configuration=configuration)
    except (config.ConfigException, OSError):
        raise _failed() from None
    credentials = await asyncio.to_thread(_read, configuration)
    if not (credentials.authorization or credentials.certificate_pem):
        raise _failed()  # the package logs a failing plugin and goes on without credentials
    return credentials


def _read(configuration: Any) -> PluginCredentials:
    certificate, key = configuration.cert_file, configuration.key_file
    return PluginCredentials(
        authorization=str(configuration.api_key.get("BearerToken") or ""),
        certificate_pem=Path(certificate).read_text() if certificate else "",
        key_pem=Path(key).read_text() if key else "",
    )


def _failed() -> PermanentError:
    return PermanentError(
        Reason.FORBIDDEN,
        "the credential plugin of the kubeconfig failed",
        hint="run `kubectl auth whoami` with this kubeconfig",
        actor=Actor.ADMIN,
    )
