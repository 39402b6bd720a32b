"""A client's credentials, and the servers that it trusts."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from raftlog.errors import ConfigError
from raftlog.tls import TlsContext, TlsFiles, client_context


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS files and credentials of a client. Its text shows no secret.

    TLS is used with brokers whose URL begins with `https://`. A password or a token is sent to those only, and to
    brokers on the same machine. Files are read when the client is made, and again after they have changed.

    Args:
        ca_file: PEM file of the CAs whose certificates are trusted; "": those of the system.
        cert_file: PEM file of the client's certificate, if the cluster wants one.
        key_file: PEM file of its key, without a password.
        username: the user's name.
        password: the user's password.
        token: a bearer token, in place of a user.

    Raises:
        ConfigError: an option needs another one, or a value is not text.
    """

    ca_file: str = ""
    """PEM file of the CAs whose certificates are trusted; "": those of the system."""
    cert_file: str = ""
    """PEM file of the client's certificate."""
    key_file: str = ""
    """PEM file of the certificate's key."""
    username: str = ""
    """The user's name."""
    password: str = field(default="", repr=False)
    """The user's password."""
    token: str = field(default="", repr=False)
    """A bearer token, in place of a user."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if not isinstance(value, str):
                raise ConfigError(f"{option.name}: expected a str, received {type(value).__name__}")
        if bool(self.cert_file) != bool(self.key_file):
            raise ConfigError("cert_file, key_file: expected both or none")
        if bool(self.username) != bool(self.password):
            raise ConfigError("username, password: expected both or none")
        if self.token and self.username:
            raise ConfigError("token, username: expected one of them")
        if ":" in self.username:
            raise ConfigError(f"username: expected a name without a colon, received {self.username!r:.80}")
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise ConfigError("token: expected printable ASCII without spaces")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Security:
        """Return what the environment says, by `RAFTLOG_` and an option's name, as in `RAFTLOG_CA_FILE`.

        Args:
            environment: the variables; None: those of this process.

        Raises:
            ConfigError: a variable needs another one.
        """
        found = os.environ if environment is None else environment
        return cls(**{option.name: found.get(f"RAFTLOG_{option.name.upper()}", "") for option in fields(cls)})

    def tls_context(self) -> TlsContext | None:
        """Return the TLS with which brokers are dialled; None: the system's CAs are trusted.

        Raises:
            ConfigError: a file cannot be used.
        """
        if not self.ca_file and not self.cert_file:
            return None
        files = TlsFiles(cert_file=self.cert_file, key_file=self.key_file, ca_file=self.ca_file)
        return TlsContext(files, client_context)

    @property
    def authorization(self) -> str:
        """Return the value of the field `Authorization`; "": there are no credentials."""
        if self.token:
            return f"Bearer {self.token}"
        if self.username:
            return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return ""
