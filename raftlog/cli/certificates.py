"""A small CA of its own: certificates for a cluster's nodes and users, for trials and small clusters.

The names in certificates are those that brokers read: `spiffe://<cluster id>/broker/<id>` of a node, and the common
name of a user.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raftlog.errors import ConfigError
from raftlog.model import Address

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_DAYS = 3_650
CERTIFICATE_DAYS = 825
_BACKDATED = dt.timedelta(hours=1)
"""Certificates are valid from so long ago: clocks differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of a certificate."""

    name: str
    """The common name, and the name of its files."""
    hosts: Sequence[str] = ()
    """Host names and IP addresses of a node; none: it is a user."""
    uri: str = ""
    """A SPIFFE id."""


class CertificateAuthority:
    """A CA in a folder: `ca.pem` and `ca.key`.

    Raises:
        ConfigError: `cryptography` is not installed, or the folder's files cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        _require_cryptography()
        self.folder = folder
        self.cert_path, self.key_path = folder / "ca.pem", folder / "ca.key"

    @property
    def exists(self) -> bool:
        return self.cert_path.exists() or self.key_path.exists()

    def create(self, name: str) -> None:
        """Make the CA's certificate and key.

        Raises:
            ConfigError: the folder has a CA already.
        """
        if self.exists:
            raise ConfigError(f"{self.folder} has a CA already: its nodes trust it, so it is not replaced")
        from cryptography import x509  # noqa: PLC0415  (an extra of few)
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

        self.folder.mkdir(parents=True, exist_ok=True)
        key, own = _new_key(), _name(name)
        usage = x509.KeyUsage(**{**_NO_USAGE, "key_cert_sign": True, "crl_sign": True})
        builder = (
            _builder(own, own, key, CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
        )
        write_private(self.key_path, _key_pem(key))
        self.cert_path.write_bytes(_pem(builder.sign(key, hashes.SHA256())))

    def issue(self, subject: Subject, folder: Path) -> tuple[Path, Path]:
        """Write a certificate and its key, replacing older ones; return their paths."""
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

        ca, ca_key = self._load()
        key = _new_key()
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if subject.hosts else [])]
        builder = (
            _builder(_name(subject.name), ca.subject, key, CERTIFICATE_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**{**_NO_USAGE, "digital_signature": True}), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        )
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        names = [_general_name(host) for host in subject.hosts]
        names += [x509.UniformResourceIdentifier(subject.uri)] if subject.uri else []
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        folder.mkdir(parents=True, exist_ok=True)
        cert_path, key_path = folder / f"{subject.name}.pem", folder / f"{subject.name}.key"
        write_private(key_path, _key_pem(key))
        cert_path.write_bytes(_pem(builder.sign(ca_key, hashes.SHA256())))
        return cert_path, key_path

    def _load(self) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

        try:
            certificate = x509.load_pem_x509_certificate(self.cert_path.read_bytes())
            key = load_pem_private_key(self.key_path.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"the CA in {self.folder} cannot be used: {error}") from error
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ConfigError(f"the CA in {self.folder} cannot be used: {self.key_path} is no EC key")
        return certificate, key


def require_hosts(hosts: Sequence[str]) -> None:
    """Raise if one is neither a host name nor an IP address.

    Raises:
        ConfigError: one is not.
    """
    for host in hosts:
        _general_name(host)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, never readable by others in between."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    beside.replace(path)


_NO_USAGE = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401, PLC0415
    except ImportError:
        raise ConfigError("certificates need the package cryptography: pip install 'raftlog[security]'") from None


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    return certificate.public_bytes(Encoding.PEM)


def _name(text: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    from cryptography import x509  # noqa: PLC0415

    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        Address.parse(f"{host}:0")
        return x509.DNSName(host.encode("idna").decode())
    except ValueError as error:
        raise ConfigError(f"expected a host name or an IP address, received {host!r:.80}: {error}") from None
