"""A client's credentials, and the servers that it trusts."""

from __future__ import annotations

import base64
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import orjson

from raftlog.client.secrets import content_of, read_secret
from raftlog.errors import ConfigError
from raftlog.tls import TlsContext, TlsFiles, client_context
from raftlog.transport.session_credentials import SessionCredentials
from raftlog.transport.token_source import RenewedToken, TokenSource, require_token

_MAX_FILE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS files and credentials of a client. Its text shows no secret.

    TLS is used with brokers whose URL begins with `https://`. Credentials are used with those only, and with brokers on
    the same machine. Certificates are read when the client is made, and again after they have changed.

    A password is not sent: the client logs in by SCRAM-SHA-256, and the broker proves that it knows the user. With
    `login="basic"` each request has the password itself, for a proxy that checks it before the brokers, or for brokers
    without a cluster key.

    A token is in `token`, in `token_file`, or from `token_provider`. The last two are read, or called, again before the
    token expires, and when a broker refuses it. While a call fails, a token that is still valid is used.

    Args:
        ca_file: PEM file of the CAs whose certificates are trusted; "": those of the system.
        cert_file: PEM file of the client's certificate, if the cluster wants one.
        key_file: PEM file of its key, without a password.
        username: the user's name.
        password: the user's password.
        password_file: a file whose only line is the password. It is read when a client is made, and at each login.
        login: how a password is used, `scram` or `basic`.
        token: a bearer token, in place of a user.
        token_file: a file with a token, or with the JSON document that `raftlog login` writes.
        token_provider: a function, plain or async, that returns a token. A plain one runs in a thread: it may block.

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
    password_file: str = ""
    """A file whose only line is the password."""
    login: str = "scram"
    """How a password is used: `scram` or `basic`."""
    token: str = field(default="", repr=False)
    """A bearer token, in place of a user."""
    token_file: str = ""
    """A file with a token."""
    token_provider: Callable[[], str | Awaitable[str]] | None = field(default=None, repr=False)
    """A function that returns a token."""

    def __post_init__(self) -> None:
        for option in _TEXTS:
            value = getattr(self, option)
            if not isinstance(value, str):
                raise ConfigError(f"{option}: expected a str, received {type(value).__name__}")
        if bool(self.cert_file) != bool(self.key_file):
            raise ConfigError("cert_file, key_file: expected both or none")
        self._check_user()
        if self.token_provider is not None and not callable(self.token_provider):
            raise ConfigError(f"token_provider: expected a function, received {type(self.token_provider).__name__}")
        given = [name for name in ("token", "token_file", "token_provider", "username") if getattr(self, name)]
        if len(given) > 1:
            raise ConfigError(f"{', '.join(given)}: expected one of them")
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise ConfigError("token: expected printable ASCII without spaces")

    def _check_user(self) -> None:
        if self.password and self.password_file:
            raise ConfigError("password, password_file: expected one of them")
        if bool(self.username) != bool(self.password or self.password_file):
            raise ConfigError("username, password or password_file: expected both or none")
        if ":" in self.username:
            raise ConfigError(f"username: expected a name without a colon, received {self.username!r:.80}")
        if self.login not in LOGINS:
            raise ConfigError(f"login: expected {' or '.join(LOGINS)}, received {self.login!r:.80}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Security:
        """Return what the environment says, by `RAFTLOG_` and an option's name, as in `RAFTLOG_CA_FILE`.

        Args:
            environment: the variables; None: those of this process.

        Raises:
            ConfigError: a variable needs another one.
        """
        found = os.environ if environment is None else environment
        texts: dict[str, Any] = {option: found.get(f"RAFTLOG_{option.upper()}", "") for option in _TEXTS}
        return cls(**texts | {"login": texts["login"] or LOGINS[0]})

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
        """Return the value of the field `Authorization`; "": there are no credentials, or they change.

        Raises:
            ConfigError: `password_file` cannot be read.
        """
        if self.token:
            return f"Bearer {self.token}"
        if self.username and self.login == "basic":
            return "Basic " + base64.b64encode(f"{self.username}:{self.read_password()}".encode()).decode()
        return ""

    def credentials(self) -> SessionCredentials:
        """Return the credentials of one session.

        Raises:
            ConfigError: `password_file` cannot be read.
        """
        return SessionCredentials(authorization=self.authorization, tokens=self.token_source())

    def token_source(self) -> RenewedToken | None:
        """Return what gets tokens for one session, by a login too; None: the client has none, or a fixed one.

        Raises:
            ConfigError: `password_file` cannot be read.
        """
        if self.username and self.login == "scram":
            self.read_password()
            from raftlog.transport.password_login import PasswordLogin  # noqa: PLC0415  (loads aiohttp)

            return PasswordLogin(self.username, self.read_password)
        if self.token_provider is not None:
            return TokenSource(self.token_provider)
        return TokenSource(partial(read_token, self.token_file), "token_file") if self.token_file else None

    def read_password(self) -> str:
        """Return the user's password.

        Raises:
            ConfigError: `password_file` cannot be read.
        """
        return self.password or read_secret(self.password_file, "password_file")


LOGINS = ("scram", "basic")
"""How a password may be used; the first is the default."""
_TEXTS = tuple(option.name for option in fields(Security) if option.name != "token_provider")


def read_token(path: str) -> str:
    """Return the token in a file: its text, or `access_token` of a JSON object.

    Raises:
        ConfigError: the file cannot be read, or holds no token.
    """
    try:
        text = content_of(path, _MAX_FILE_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise ConfigError(f"token_file: cannot read {path}: {error.strerror}; raftlog login writes one") from error
    if text.startswith("{"):
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise ConfigError(f"token_file: {path} is not valid JSON; write it again with raftlog login") from None
        text = document.get("access_token", "")
    return require_token(text, f"token_file: {path}")
