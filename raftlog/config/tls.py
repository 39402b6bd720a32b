"""The section `[tls]` of a node's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from raftlog.errors import ConfigError

TlsMode: TypeAlias = Literal["off", "optional", "required"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """TLS of a node's listeners, and what the node itself presents and trusts when it dials others.

    The files are PEM. A node loads them again when they change, and at SIGHUP.
    """

    public: TlsMode = "off"
    """The listener for clients. `optional`: TLS and plain connections on one port, told apart by their first byte."""
    internal: TlsMode = "off"
    """The listener for other nodes."""
    quorum: TlsMode = "off"
    """The Raft listener of controllers. With `optional` they dial with TLS, and without if the peer has none."""
    cert_file: str = ""
    """This node's certificate, followed by those of intermediate CAs."""
    key_file: str = ""
    """Its key, without a password."""
    ca_file: str = ""
    """CA certificates: this node trusts nodes, and clients with certificates, that one of them signed."""
    client_auth: Literal["none", "optional", "required"] = "none"
    """Whether clients must present a certificate at the public listener."""
    node_auth: Literal["none", "required"] = "none"
    """Whether nodes must present a certificate at the internal and the quorum listener."""

    def __post_init__(self) -> None:
        if self.is_on and not (self.cert_file and self.key_file):
            raise ConfigError("tls.cert_file, tls.key_file: missing; a listener with TLS needs both")
        if bool(self.cert_file) != bool(self.key_file):
            raise ConfigError(
                "tls.cert_file, tls.key_file: expected both or none, "
                f"received {self.cert_file!r:.200} and {self.key_file!r:.200}"
            )
        if not self.ca_file and (self.client_auth != "none" or self.node_auth != "none"):
            raise ConfigError("tls.ca_file: missing; client_auth and node_auth check certificates against it")

    @property
    def is_on(self) -> bool:
        """Return whether a listener speaks TLS."""
        return any(mode != "off" for mode in (self.public, self.internal, self.quorum))
