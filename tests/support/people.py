"""People with logins of their own on the real API server: by token, and by client certificate."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from support import rights
from support.installation import Installation
from windlass.devstack.credentials import Credentials
from windlass.domain.ids import inspect_name
from windlass.ports.kube import Object

INSPECT = {"apiGroups": ["windlass.dev"], "resources": ["applications/inspect"], "verbs": ["get"]}
MODULES_INSPECT = {"apiGroups": ["windlass.dev"], "resources": ["modules/inspect"], "verbs": ["get"]}
ASK = {"apiGroups": ["windlass.dev"], "resources": ["actionrequests"], "verbs": ["create"]}
READ = {"apiGroups": ["windlass.dev"], "resources": ["applications"], "verbs": ["get", "list"]}
UPDATE = {"apiGroups": ["windlass.dev"], "resources": ["applications"], "verbs": ["update"]}


async def open_to_everybody(installation: Installation) -> None:
    """Apply deploy/rbac/inspect.yaml for an installation with another id."""
    name = inspect_name(installation.name)
    for document in rights.documents("rbac/inspect.yaml"):
        text = yaml.safe_dump(document).replace("windlass-inspect", name)
        await installation.kube.apply(yaml.safe_load(text), field_manager="tests")


async def grant(installation: Installation, user: str, *rules: Object, namespace: str = "") -> None:
    """Give a user rights in the installation's namespace, or in another."""
    where, name = namespace or installation.namespace, rights.fresh("person")
    metadata = {"namespace": where, "name": name}
    role: dict[str, Any] = {"apiVersion": rights.RBAC, "kind": "Role", "metadata": metadata, "rules": list(rules)}
    await installation.kube.apply(role, field_manager="tests")
    await installation.kube.apply(
        {
            "apiVersion": rights.RBAC,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        },
        field_manager="tests",
    )


async def grant_everywhere(installation: Installation, user: str, *rules: Object) -> None:
    """Give a user rights in the whole cluster."""
    metadata = {"name": rights.fresh("person")}
    await installation.kube.apply(
        {"apiVersion": rights.RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)},
        field_manager="tests",
    )
    await installation.kube.apply(
        {
            "apiVersion": rights.RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        },
        field_manager="tests",
    )


async def with_token(installation: Installation, name: str) -> tuple[str, str, Path]:
    """Make somebody who logs in by token; return user name, token and kubeconfig."""
    kube, namespace = installation.kube, installation.namespace
    await kube.apply(rights.plain("ServiceAccount", namespace, name), field_manager="tests")
    token = await rights.token(kube, namespace, name)
    return rights.user_name(namespace, name), token, _kubeconfig(installation, name, {"token": token})


def with_certificate(installation: Installation, name: str) -> Path:
    """Make somebody who logs in by client certificate, and has no token; return the kubeconfig."""
    pki = Credentials(installation.stack.data_dir / "pki")
    authority = x509.load_pem_x509_certificate(pki.client_ca.read_bytes())
    signer = serialization.load_pem_private_key(pki.client_ca_key.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    user = {
        "client-certificate-data": base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode(),
        "client-key-data": base64.b64encode(pem).decode(),
    }
    return _kubeconfig(installation, name, user)


def _kubeconfig(installation: Installation, name: str, user: dict[str, str]) -> Path:
    access = installation.kube.access
    cluster = {
        "server": access.server,
        "certificate-authority-data": base64.b64encode(access.ca_pem.encode()).decode(),
    }
    path = installation.folder / f"{name}.kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "it",
                "clusters": [{"name": "it", "cluster": cluster}],
                "users": [{"name": "it", "user": user}],
                "contexts": [
                    {"name": "it", "context": {"cluster": "it", "user": "it", "namespace": installation.namespace}}
                ],
            }
        )
    )
    path.chmod(0o600)
    return path
