"""Where the API server is and how to authenticate: kubeconfig files, kubeconfig text and the pod's own account.

Read here and not by the `kubernetes` package, because importing that costs a second and 30 MB; it is called (by
`windlass.adapters.kube.seam`) only for users whose credentials come from a plugin.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from windlass.domain.errors import Actor, PermanentError, Reason
from windlass.domain.text.documents import DocumentError, parse_helm

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's token, CA and namespace."""

_NOBODY: Final[Mapping[str, Any]] = {}
_HINT = "check the kubeconfig with `kubectl config view` and `kubectl version`"


@dataclass(frozen=True, kw_only=True)
class ApiAccess:
    """One cluster and one user of a kubeconfig, files resolved to their content.

    ``ca_pem``, ``certificate_pem`` and ``key_pem`` are PEM texts. ``token_file`` is read again as it rotates.
    ``plugin`` is a kubeconfig of one user with an ``exec`` or ``auth-provider`` entry.
    ``impersonate`` is the user that requests are made as, who must be allowed to the authenticated one.
    Fields that hold secrets are left out of ``repr``.
    """

    server: str
    ca_pem: str = ""
    certificate_pem: str = ""
    key_pem: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    server_name: str = ""
    proxy: str = ""
    insecure: bool = False
    namespace: str = "default"
    impersonate: str = ""
    plugin: Mapping[str, Any] | None = field(default=None, repr=False)


def read(source: str | Path | None = None, *, context: str = "") -> ApiAccess:
    """Read a kubeconfig.

    Args:
        source: a path, the text of a kubeconfig (it holds a line break or starts with ``{``), or None for kubectl's
            order: the files of ``KUBECONFIG``, else ``~/.kube/config``, else the pod's own service account.
        context: the context to use instead of ``current-context``.

    Raises:
        PermanentError: API_REJECTED (actor admin), the file is missing or lacks a field; names file and field.
    """
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return _select([(_parse(source, "the kubeconfig text"), Path())], context)
    if source is not None:
        return _select([_load(Path(source).expanduser())], context)
    listed = [Path(part).expanduser() for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    found = [path for path in listed or [Path.home() / ".kube" / "config"] if path.exists()]
    if found:
        return _select([_load(path) for path in found], context)
    if not listed and "KUBERNETES_SERVICE_HOST" in os.environ:
        return _in_cluster()
    raise _bad(f"no kubeconfig at {', '.join(map(str, listed)) or '~/.kube/config'} and not inside a pod")


def write_in_cluster(path: Path, host: str, port: str, *, mounted: Path = SERVICE_ACCOUNT) -> Path:
    """Write a kubeconfig of the pod's own account, for programs that want a file; it refers to what is mounted.

    Args:
        path: of the file; its folder is made.
        host: of the API server, as ``KUBERNETES_SERVICE_HOST`` has it.
        port: as ``KUBERNETES_SERVICE_PORT`` has it.
        mounted: folder with the account's token, CA and namespace.

    Returns:
        ``path``.
    """
    cluster = {"server": _server(host, port), "certificate-authority": str(mounted / "ca.crt")}
    namespace = _text(mounted / "namespace").strip()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "clusters": [{"name": "pod", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"tokenFile": str(mounted / "token")}}],
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod", "namespace": namespace}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def _server(host: str, port: str) -> str:
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _in_cluster() -> ApiAccess:
    return ApiAccess(
        server=_server(os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")),
        ca_pem=_text(SERVICE_ACCOUNT / "ca.crt"),
        token_file=str(SERVICE_ACCOUNT / "token"),
        namespace=_text(SERVICE_ACCOUNT / "namespace").strip(),
    )


def _load(path: Path) -> tuple[Mapping[str, Any], Path]:
    return _parse(_text(path), str(path)), path.parent


def _parse(text: str, where: str) -> Mapping[str, Any]:
    try:
        document = parse_helm(text)
    except DocumentError as error:
        raise _bad(f"{where} is not YAML: {error.message}") from None
    if not isinstance(document, dict):
        raise _bad(f"{where} is not a mapping")
    return cast("Mapping[str, Any]", document)


def _select(files: Sequence[tuple[Mapping[str, Any], Path]], context: str) -> ApiAccess:
    """Follow the context to its cluster and user; over several files the first entry of a name wins, as in kubectl."""
    chosen = context or next((name for doc, _ in files if (name := str(doc.get("current-context") or ""))), "")
    bound, _ = _entry(files, "contexts", "context", chosen)
    cluster, cluster_base = _entry(files, "clusters", "cluster", str(bound.get("cluster") or ""))
    user_name = str(bound.get("user") or "")
    user, user_base = _entry(files, "users", "user", user_name) if user_name else (_NOBODY, Path())
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise _bad(f"cluster {bound.get('cluster')!r} has no server URL")
    return ApiAccess(
        server=server.rstrip("/"),
        ca_pem=_pem(cluster, "certificate-authority", cluster_base),
        certificate_pem=_pem(user, "client-certificate", user_base),
        key_pem=_pem(user, "client-key", user_base),
        token=str(user.get("token") or ""),
        token_file=str(user_base / user["tokenFile"]) if user.get("tokenFile") else "",
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        namespace=str(bound.get("namespace") or "default"),
        plugin=_single(server, user) if "exec" in user or "auth-provider" in user else None,
    )


def _single(server: str, user: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a kubeconfig of one user: all that a credential plugin is asked through."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": user}],
    }


def _entry(
    files: Sequence[tuple[Mapping[str, Any], Path]], section: str, key: str, name: str
) -> tuple[Mapping[str, Any], Path]:
    for document, base in files:
        for entry in document.get(section) or ():
            if entry.get("name") == name:
                return cast("Mapping[str, Any]", entry.get(key) or {}), base
    raise _bad(f"the kubeconfig has no {key} named {name!r}")


def _pem(node: Mapping[str, Any], key: str, base: Path) -> str:
    if data := node.get(f"{key}-data"):
        try:
            return base64.b64decode(data, validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError, ValueError):
            raise _bad(f"{key}-data is not base64 of a PEM text") from None
    return _text(base / node[key]) if node.get(key) else ""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "not a text file"
        raise _bad(f"cannot read {path}: {cause}") from error


def _bad(message: str) -> PermanentError:
    return PermanentError(Reason.API_REJECTED, message, hint=_HINT, actor=Actor.ADMIN)
