"""The installation's own certificate authority for the inspect endpoint, and the certificates of its workers.

Only workers can read the Secret with its key, and it signs nothing but certificates of workers: whoever presents one is
a worker.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from windlass.contracts.inspection import server_name
from windlass.domain.errors import Actor, PermanentError, Reason, TransientError
from windlass.domain.ids import INSTALLATION_LABEL, inspect_authority_name
from windlass.ports.kube import Kube, Object, ObjectRef

AUTHORITY_LIFE: Final = timedelta(days=3650)
MEMBER_LIFE: Final = timedelta(days=90)
"""A worker makes itself a new certificate when half of this has passed; see `Certificate.stale`."""

_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Authority:
    """The authority: certificate and key, PEM."""

    certificate_pem: str
    key_pem: str = field(repr=False)

    @classmethod
    def made(cls, installation: str, now: datetime) -> Authority:
        """Make a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{installation} inspect CA")])
        made = (
            _builder(name, name, key.public_key(), now, AUTHORITY_LIFE)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate_pem=_pem(made), key_pem=_key_pem(key))

    def certificate(self, member: str, names: tuple[str, ...], now: datetime) -> Certificate:
        """Make a certificate for a worker, for serving and for asking other workers.

        Args:
            member: the worker.
            names: DNS names beside its own, such as that of the Service.
            now: when it begins to be valid.
        """
        authority = x509.load_pem_x509_certificate(self.certificate_pem.encode())
        signer = cast("ec.EllipticCurvePrivateKey", serialization.load_pem_private_key(self.key_pem.encode(), None))
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, member)])
        identifier = x509.SubjectKeyIdentifier.from_public_key(signer.public_key())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = (
            _builder(subject, authority.subject, key.public_key(), now, MEMBER_LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName(name) for name in (server_name(member), *names)]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
            .sign(signer, hashes.SHA256())
        )
        return Certificate(
            authority_pem=self.certificate_pem, certificate_pem=_pem(made), key_pem=_key_pem(key), made=now
        )


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A worker's certificate and key, and the certificate of the authority that signed it; PEM."""

    authority_pem: str
    certificate_pem: str
    key_pem: str = field(repr=False)
    made: datetime

    def stale(self, authority: Authority, now: datetime) -> bool:
        """Say whether it is time for a new one."""
        return authority.certificate_pem != self.authority_pem or now - self.made > MEMBER_LIFE / 2

    def serving(self) -> ssl.SSLContext:
        """Return the TLS settings of the server: a client may present a certificate, and then it must be a worker's."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.authority_pem)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_OPTIONAL
        self._load(context)
        return context

    def asking(self) -> ssl.SSLContext:
        """Return the TLS settings with which this worker asks another one."""
        context = trusting(self.authority_pem)
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        # `ssl` takes them from a file only, which has mode 0600 and lives for this call.
        with tempfile.NamedTemporaryFile("w", prefix="windlass-") as file:
            file.write(f"{self.certificate_pem}\n{self.key_pem}")
            file.flush()
            context.load_cert_chain(Path(file.name))


def trusting(authority_pem: str) -> ssl.SSLContext:
    """Return TLS settings that accept workers of one installation only.

    Raises:
        PermanentError: API_REJECTED, ``authority_pem`` holds no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # no authorities of the system
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata=authority_pem)
    except (ssl.SSLError, ValueError):
        raise PermanentError(
            Reason.API_REJECTED,
            "the published certificate authority of the inspect endpoint is no PEM certificate",
            hint="delete the ConfigMap; workers write it again within a minute",
            actor=Actor.ADMIN,
        ) from None
    return context


async def ensured(kube: Kube, namespace: str, installation: str, now: datetime | None = None) -> Authority:
    """Return the installation's authority; make it if there is none. Of several workers one succeeds.

    Raises:
        PermanentError: FORBIDDEN; STATE_REJECTED, the Secret does not hold a certificate and its key.
        TransientError: the API server does not answer.
    """
    name = inspect_authority_name(installation)
    ref = ObjectRef(api_version="v1", kind="Secret", namespace=namespace, name=name)
    found = await kube.get(ref)
    if found is None:
        made = Authority.made(installation, now or datetime.now(UTC))
        metadata = {"namespace": namespace, "name": name, "labels": {INSTALLATION_LABEL: installation}}
        body: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": metadata,
            "stringData": {_CERTIFICATE: made.certificate_pem, _KEY: made.key_pem},
        }
        try:
            found = await kube.create(body)
        except TransientError as error:
            found = await kube.get(ref) if error.reason is Reason.API_CONFLICT else None
            if found is None:
                raise
    return _read(ref, found)


def _read(ref: ObjectRef, secret: Object) -> Authority:
    data = cast("dict[str, str]", secret.get("data") or {})
    try:
        certificate, key = (base64.b64decode(data[part], validate=True).decode() for part in (_CERTIFICATE, _KEY))
        x509.load_pem_x509_certificate(certificate.encode())
        serialization.load_pem_private_key(key.encode(), None)
    except (KeyError, ValueError, TypeError, binascii.Error):
        raise PermanentError(
            Reason.STATE_REJECTED,
            f"{ref} does not hold a certificate and its key",
            hint="delete it; a worker makes another one within a minute",
            actor=Actor.ADMIN,
        ) from None
    return Authority(certificate_pem=certificate, key_pem=key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
