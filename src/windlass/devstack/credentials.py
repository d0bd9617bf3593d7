"""Keys, certificates, tokens and kubeconfigs of one embedded control plane.

Everything is made once per data directory and stays: running clients and stored service account tokens keep
working over restarts. Only processes on the loopback address can present or see any of it.
"""

from __future__ import annotations

import base64
import csv
import datetime as dt
import ipaddress
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ADMIN: Final = "admin"
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
SCHEDULER: Final = "system:kube-scheduler"
NODES: Final = "kwok"
SERVICE: Final = "windlass"
WORKER: Final = "system:serviceaccount:windlass-system:windlass-worker"
WATCHER: Final = "system:serviceaccount:windlass-system:windlass-watcher"

# User names with their groups. The two system users get their rights from the roles that the API server
# creates for them; `windlass` has none until a role is bound to it. The two service accounts have the rights of
# ``deploy/rbac`` on the management cluster; the groups are those that the API server gives to such accounts.
USERS: Final = {
    ADMIN: ("system:masters",),
    CONTROLLER_MANAGER: (),
    SCHEDULER: (),
    NODES: ("system:masters",),
    SERVICE: ("windlass",),
    WORKER: ("system:serviceaccounts", "system:serviceaccounts:windlass-system"),
    WATCHER: ("system:serviceaccounts", "system:serviceaccounts:windlass-system"),
}

_VALIDITY: Final = dt.timedelta(days=3650)  # a development stack; nothing renews it
_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_ADDRESSES: Final = ("127.0.0.1", "10.96.0.1")  # loopback, and the first address of the service range


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files below one `pki` folder."""

    folder: Path

    @property
    def ca(self) -> Path:
        """Certificate of the authority that signed the serving certificate."""
        return self.folder / "ca.crt"

    @property
    def serving_certificate(self) -> Path:
        """Serving certificate of every HTTPS part."""
        return self.folder / "serving.crt"

    @property
    def serving_key(self) -> Path:
        """Private key of `serving_certificate`."""
        return self.folder / "serving.key"

    @property
    def service_account_key(self) -> Path:
        """Private key that signs service account tokens."""
        return self.folder / "sa.key"

    @property
    def service_account_public_key(self) -> Path:
        """Public key that verifies service account tokens."""
        return self.folder / "sa.pub"

    @property
    def tokens(self) -> Path:
        """The API server's static token file."""
        return self.folder / "tokens.csv"

    def kubeconfig(self, user: str) -> Path:
        """Path of the kubeconfig of one of `USERS`."""
        return self.folder / f"{user.replace(':', '-')}.kubeconfig"

    def token(self, user: str) -> str:
        """Return the bearer token of one of `USERS`.

        Raises:
            KeyError: there is no such user.
        """
        with self.tokens.open(newline="") as file:
            return {row[1]: row[0] for row in csv.reader(file)}[user]


def ensure(folder: Path) -> Credentials:
    """Make what is missing below ``folder`` (mode 0700, files 0600) and return the whole."""
    credentials = Credentials(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not credentials.serving_key.exists():
        _make_certificates(credentials)
    if not credentials.service_account_public_key.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        write_secret(credentials.service_account_key, _private_pem(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write_secret(credentials.service_account_public_key, public)
    known = credentials.tokens.read_text() if credentials.tokens.exists() else ""
    users = {row[1] for row in csv.reader(known.splitlines())}
    missing = [(user, groups) for user, groups in USERS.items() if user not in users]
    if missing:
        lines = (f'{secrets.token_urlsafe(32)},{user},{user},"{",".join(groups)}"\n' for user, groups in missing)
        write_secret(credentials.tokens, (known + "".join(lines)).encode())
    return credentials


def write_kubeconfigs(credentials: Credentials, server: str, admin: Path) -> None:
    """Write a kubeconfig for every user, and the administrator's also to ``admin``.

    Args:
        credentials: made by `ensure`.
        server: URL of the API server.
        admin: where people and clients look for it.
    """
    authority = base64.b64encode(credentials.ca.read_bytes()).decode()
    for user in USERS:
        text = _KUBECONFIG.format(server=server, authority=authority, user=user, token=credentials.token(user))
        write_secret(credentials.kubeconfig(user), text.encode())
    write_secret(admin, credentials.kubeconfig(ADMIN).read_bytes())


_KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
current-context: windlass
clusters:
- name: windlass
  cluster:
    server: {server}
    certificate-authority-data: {authority}
contexts:
- name: windlass
  context:
    cluster: windlass
    user: "{user}"
users:
- name: "{user}"
  user:
    token: {token}
"""


def _make_certificates(credentials: Credentials) -> None:
    now = dt.datetime.now(dt.UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    serving_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("windlass embedded stack CA")
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    alternatives = [
        *(x509.DNSName(name) for name in _NAMES),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES),
    ]
    serving = (
        _builder(_name("windlass embedded stack"), issuer, serving_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(serving_key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    write_secret(credentials.ca, authority.public_bytes(serialization.Encoding.PEM))
    write_secret(credentials.serving_certificate, serving.public_bytes(serialization.Encoding.PEM))
    # Last, because its presence says that all of them are there. The authority's key is not kept.
    write_secret(credentials.serving_key, _private_pem(serving_key))


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _VALIDITY)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def write_secret(path: Path, content: bytes) -> None:
    """Replace ``path`` by a file of mode 0600."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
