"""TLS contexts made from certificate files, which may be replaced while the process runs.

Contexts accept TLS 1.2 and 1.3, never renegotiate, and do not compress. Python's `ssl` is the only dependency.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from raftlog.errors import ConfigError

_log = logging.getLogger(__name__)
ClientAuth: TypeAlias = Literal["none", "optional", "required"]
"""Whether a server asks its peers for a certificate."""
HANDSHAKE = 0x16
"""The first byte of a TLS connection. No HTTP request, and no hello of the Raft transport, begins with it."""
LOOK_EVERY_S = 5.0
"""How often files are looked at."""
Stamp: TypeAlias = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. A certificate and its key belong together; the CA file decides which peers a process trusts."""

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    """"": a client trusts the system's CAs, and a server trusts no certificate."""

    def stamp(self) -> Stamp:
        """Return what changes when a file is replaced.

        Raises:
            OSError: a file is missing.
        """
        stats = [Path(name).stat() for name in (self.cert_file, self.key_file, self.ca_file) if name]
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def server_context(files: TlsFiles, *, client_auth: ClientAuth = "none") -> ssl.SSLContext:
    """Return the context of a listener.

    Raises:
        ConfigError: a file cannot be read or used; the message names it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    _load_pair(context, files)
    if files.ca_file:
        _load_cas(context, files.ca_file)
    context.verify_mode = _VERIFY[client_auth]
    return context


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context with which a client or a node dials. It checks the server's certificate and host name.

    Raises:
        ConfigError: a file cannot be read or used; the message names it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    if files.ca_file:
        _load_cas(context, files.ca_file)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if files.cert_file:
        _load_pair(context, files)
    return context


class TlsContext:
    """The context in force: the newest one that could be made from the files.

    New connections use `current`; connections that exist keep theirs. A context is replaced as a whole, so a
    certificate that does not belong to its key leaves the previous pair in force.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, files: TlsFiles, make: Callable[[TlsFiles], ssl.SSLContext]) -> None:
        self._files = files
        self._make = make
        self._stamp = self._look()  # Before the files are read: what replaces them meanwhile is loaded later.
        self.current = make(files)
        self._looked_s = time.monotonic()

    def fresh(self) -> ssl.SSLContext:
        """Return the current context; look for changed files before, at most once in `LOOK_EVERY_S`."""
        now = time.monotonic()
        if now - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now
            self.reload()
        return self.current

    def reload(self) -> bool:
        """Load files that have changed; return whether the context was replaced. May block for some ms."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp  # Files that are missing, or cannot be used, are reported once.
        try:
            self.current = self._make(self._files)
        except (OSError, ConfigError) as error:
            why = error.message if isinstance(error, ConfigError) else f"{error.filename}: {error.strerror}"
            _log.error("the replaced TLS files cannot be used; the previous ones stay in force: %s", why)
            return False
        _log.info("loaded the replaced TLS files %s", self._files.cert_file or self._files.ca_file)
        return True

    def _look(self) -> Stamp | None:
        """Return the stamp of the files; None: one of them is missing."""
        try:
            return self._files.stamp()
        except OSError:
            return None


_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")  # Of TLS 1.2. All of TLS 1.3 have forward secrecy.


def _load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    for name in (files.cert_file, files.key_file):
        _require_readable(name)
    try:
        context.load_cert_chain(files.cert_file, files.key_file, password=_refuse_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"the key {files.key_file} does not belong to the certificate {files.cert_file}"
        elif "PEM lib" in str(error):
            why = f"{files.cert_file} or {files.key_file} is not PEM"
        else:
            why = f"{files.cert_file} with {files.key_file}: {error.reason or error}"
        raise ConfigError(f"TLS: {why}") from error


def _load_cas(context: ssl.SSLContext, ca_file: str) -> None:
    _require_readable(ca_file)
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise ConfigError(f"TLS: {ca_file} holds no CA certificate in PEM: {error.reason or error}") from error


def _require_readable(name: str) -> None:
    try:
        with Path(name).open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"TLS: cannot read {name or 'a file without a name'}: {error.strerror}") from error


def _refuse_password() -> str:
    """Refuse a key with a password: OpenSSL would ask for it on the terminal, for ever."""
    raise ConfigError("TLS: the key has a password; a node cannot ask for it: store the key without one, mode 0600")


def explain(error: Exception) -> str | None:
    """Return the reason of a failed TLS connection in one sentence, with the remedy; None: it is another failure."""
    if any(_ended_in_handshake(each) for each in (error, getattr(error, "os_error", None))):
        return "the connection ended during the TLS handshake"
    cause: BaseException | None = error
    # aiohttp's own error classes inherit from those of `ssl`, without their attributes.
    while cause is not None and type(cause).__module__ != "ssl":
        cause = getattr(cause, "certificate_error", None) or getattr(cause, "os_error", None) or cause.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _of_certificate(cause)
    if isinstance(cause, ssl.SSLError):
        reason = (cause.reason or str(cause)).replace("_", " ").lower()
        if cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
            return "the server does not speak TLS on this port: use http://, or another port"
        if "certificate required" in reason or "alert" in reason:
            return f"the server refuses this client's certificate, or needs one (cert_file, key_file): {reason}"
        return f"TLS failed: {reason}"
    return None


def _ended_in_handshake(error: object) -> bool:
    """Return whether this is asyncio's error for it: one without a number and without text."""
    return isinstance(error, ConnectionError) and not error.args


def _of_certificate(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message
    if error.verify_code in (18, 19, 20, 21):  # Self-signed, or its issuer is unknown.
        return f"the server's certificate is not of a CA that is trusted here (ca_file): {message}"
    if error.verify_code in (9, 10):
        return f"the server's certificate is not valid now: {message}"
    if error.verify_code in (62, 63, 64):
        return f"the server's certificate is for another host: {message}"
    return f"the server's certificate is refused: {message}"
