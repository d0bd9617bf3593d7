"""Everything that a release's account may not do, told at once when the API server has refused the first of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import structlog

from windlass.adapters.helm import manifest
from windlass.adapters.helm.operations import Operations
from windlass.adapters.kube.permissions import refusal
from windlass.domain.errors import PermanentError, WindlassError
from windlass.ports.helm import ReleaseRequest
from windlass.ports.kube import Kube

_log = structlog.stdlib.get_logger(__name__)

_THEN: Final = "Then run `windlass retry`, or wait: it is tried again every ten minutes"


async def explained(
    error: PermanentError,
    request: ReleaseRequest,
    operations: Operations,
    kube: Kube,
    kubeconfig: Path,
    *,
    what: str,
) -> PermanentError:
    """Return an error that names every object of the chart that the target's identity may not install.

    The chart is rendered for it, Helm hooks and definitions in ``crds/`` included, which costs some tenths of a second:
    so this is done after a refusal only. If nothing more is found out, or the refusal was about something else (a
    policy, a quota, ``lookup``), ``error`` stays.

    Args:
        error: FORBIDDEN.
        request: what was to be applied.
        operations: renders it.
        kube: acts as the target's identity.
        kubeconfig: for Helm.
        what: was refused, as the sentence's subject.
    """
    try:
        text = await operations.outline(request, kubeconfig)
        entries = await asyncio.to_thread(manifest.parse, text)
        refs = await manifest.locate(entries, request.ref.namespace, kube)
        found = await refusal(kube, refs, request.ref.target, what)
    except WindlassError as unknown:
        _log.warning("what is forbidden is not known", release=str(request.ref), error=str(unknown))
        return error
    if found is None:
        return error
    return PermanentError(found.reason, found.message, hint=f"{found.hint}. {_THEN}", actor=found.actor)
