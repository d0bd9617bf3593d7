"""The environment of Helm processes: an allow-list, and folders of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

MEMORY: Final = 1 << 30
"""Bytes of private memory of one Helm process: a template can ask for any amount. A process with the largest public
charts has about 200 MiB."""

_INHERITED: Final = (
    "PATH",  # credential plugins of the kubeconfig
    "LANG",
    "LC_ALL",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)


def environment(scratch: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a Helm process.

    Args:
        scratch: folder of the adapter; Helm's own caches and the home folder lie below it.
        inherited: the environment of this process, of which a short allow-list passes.
    """
    kept = {name: inherited[name] for name in _INHERITED if name in inherited}
    return kept | {
        "HOME": str(scratch / "home"),
        "HELM_CACHE_HOME": str(scratch / "helm" / "cache"),
        "HELM_CONFIG_HOME": str(scratch / "helm" / "config"),
        "HELM_DATA_HOME": str(scratch / "helm" / "data"),
        "TMPDIR": str(scratch),
    }
