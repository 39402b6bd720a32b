"""Dials addresses as clients and nodes would: bounded in time, bytes and requests at once."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from dataclasses import replace
from typing import Any, Self, TypeVar

from raftlog.cli.doctor.certificates import end_of
from raftlog.cli.doctor.clocks import difference
from raftlog.cli.doctor.facts import ListenerFacts
from raftlog.client.options import client_id_of
from raftlog.client.security import Security
from raftlog.errors import RaftlogError
from raftlog.model import Address
from raftlog.runtime import close_all
from raftlog.tls import TlsFiles, client_context, explain
from raftlog.transport import HttpSession
from raftlog.wire import paths

T = TypeVar("T")
SMALL_BYTES, MIDDLE_BYTES, LARGE_BYTES = 64 << 10, 16 << 20, 64 << 20
"""The largest answers: of health checks, of one node, and of the broker that describes the cluster."""
MIDDLE_AT_ONCE = 4
REQUEST_S = 5.0


class Dialler:
    """Connections with the user's credentials. Use as an async context manager.

    Args:
        security: TLS files and credentials.
        timeout_s: how long all of it may take.
    """

    def __init__(self, security: Security, *, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._request_s = min(REQUEST_S, timeout_s / 4)
        self._slots = asyncio.Semaphore(MIDDLE_AT_ONCE)
        self._small, self._middle, self._large = (
            HttpSession(
                tls=security.tls_context(),
                credentials=security.credentials(),
                client_id=client_id_of(""),
                connect_timeout_ms=round(1_000 * self._request_s),
                max_answer_bytes=most,
            )
            for most in (SMALL_BYTES, MIDDLE_BYTES, LARGE_BYTES)
        )
        files = TlsFiles(cert_file=security.cert_file, key_file=security.key_file, ca_file=security.ca_file)
        self._any_certificate = client_context(files)
        # Only when the certificate ends is looked at, also if it has ended; no request is sent.
        self._any_certificate.check_hostname, self._any_certificate.verify_mode = False, ssl.CERT_NONE

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await close_all(*(session.close for session in (self._small, self._middle, self._large)))

    def left_s(self) -> float:
        """Return the seconds left, of one request at most."""
        return max(0.001, min(self._request_s, self._deadline - time.monotonic()))

    def whole_s(self) -> float:
        """Return the seconds left for everything."""
        return max(0.001, self._deadline - time.monotonic())

    async def health(self, address: Address) -> tuple[str, tuple[float, float] | None]:
        """Return why a node does not answer, or "", and the difference of its clock to this machine's."""
        sent_s = time.time()
        begun = time.monotonic()
        try:
            answer = await self._small.request("GET", address, paths.LIVEZ, timeout_ms=self._left_ms())
        except RaftlogError as error:
            return error.message, None
        return "", difference(answer.date, sent_s, sent_s + time.monotonic() - begun)

    async def read(self, cls: type[T], address: Address, path: str, *, large: bool = False, **query: str) -> T:
        """Return the JSON that a node answers.

        Raises:
            RaftlogError: it does not, before the deadline.
        """
        given: dict[str, Any] = {"query": query} if query else {}
        if large:
            return await self._large.call(cls, "GET", address, path, timeout_ms=self._left_ms(), **given)
        async with self._slots:
            return await self._middle.call(cls, "GET", address, path, timeout_ms=self._left_ms(), **given)

    async def page(self, address: Address) -> str:
        """Return a node's metrics.

        Raises:
            RaftlogError: it does not answer before the deadline.
        """
        async with self._slots:
            answer = await self._middle.request(
                "GET", address, paths.METRICS, timeout_ms=self._left_ms(), accept="text/plain"
            )
        return bytes(answer.body).decode("utf-8", "replace")

    def _left_ms(self) -> int:
        return max(1, round(1_000 * self.left_s()))

    async def reach(self, listener: ListenerFacts) -> ListenerFacts:
        """Return whether an address accepts connections, and when its certificate ends."""
        try:
            address = Address.of_url(listener.url)
        except ValueError as error:
            return replace(listener, error=f"it is not an address: {error}")
        limit_s = self.left_s()
        tls: dict[str, Any] = {"ssl": self._any_certificate, "server_hostname": address.host} if address.tls else {}
        try:
            async with asyncio.timeout(limit_s):
                _, writer = await asyncio.open_connection(address.host, address.port, limit=SMALL_BYTES, **tls)
        except TimeoutError:
            what = "no TLS handshake" if address.tls else "no connection"
            return replace(listener, error=f"{what} within {limit_s:.1f} s")
        except (OSError, ValueError) as error:
            return replace(listener, error=f"cannot connect: {_why(error)}")
        try:
            found = writer.get_extra_info("ssl_object")
            certificate = None if found is None else found.getpeercert(binary_form=True)
            return replace(listener, certificate_end_s=None if certificate is None else end_of(certificate))
        except ValueError:
            return listener
        finally:
            writer.transport.abort()


def _why(error: Exception) -> str:
    if (tls := explain(error)) is not None:
        return tls
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else str(getattr(error, "strerror", None) or error)
