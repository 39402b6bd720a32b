"""Certificates of a small CA, for listeners, clients and nodes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

import trustme

from raftlog.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA, and the folder in which it puts its files."""

    ca: trustme.CA
    folder: Path

    @classmethod
    def new(cls, folder: Path, name: str = "ca") -> Authority:
        folder.mkdir(parents=True, exist_ok=True)
        ca = trustme.CA(organization_name=name)
        ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        return cls(ca, folder)

    @property
    def ca_file(self) -> str:
        return str(self.folder / "ca.pem")

    def issue(self, name: str, *identities: str, days: int | None = None) -> TlsFiles:
        """Write a certificate and its key; return them with the CA's file.

        Args:
            identities: host names and addresses; none: localhost and 127.0.0.1.
            days: valid for this many days, or until so many days ago; None: for long.
        """
        until = None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
        issued = self.ca.issue_cert(*(identities or ("localhost", "127.0.0.1")), common_name=name, not_after=until)
        cert, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.unlink(missing_ok=True)
        for blob in issued.cert_chain_pems:
            blob.write_to_path(str(cert), append=True)
        issued.private_key_pem.write_to_path(str(key))
        return TlsFiles(cert_file=str(cert), key_file=str(key), ca_file=self.ca_file)


def section(files: TlsFiles, **settings: str) -> dict[str, str]:
    """Return `[tls]` of a node's settings."""
    return {"cert_file": files.cert_file, "key_file": files.key_file, "ca_file": files.ca_file, **settings}
