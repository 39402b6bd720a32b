"""Heartbeats from a thread keep a membership alive while the application blocks the event loop.

They carry only member id and epoch. The event loop handles owned partitions and responses once it runs again. The
thread sends nothing while the event loop runs.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from raftlog.client.ended_threads import join
from raftlog.model import Address
from raftlog.tls import TlsContext
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_json
from raftlog.wire.groups import GroupHeartbeatRequest

_log = logging.getLogger(__name__)
ATTEMPT_S = 2.0
MAX_ANSWER_BYTES = 64 << 10
"""The rest of a longer answer is not read. The thread needs the status only."""


class Route(NamedTuple):
    """How a broker is reached."""

    dialled: Address
    server_name: str
    """The host name in its certificate, if it has TLS."""


class Dialling(Protocol):
    """How the client's session dials."""

    @property
    def authorization(self) -> str:
        """The field `Authorization` of each request; "": none."""
        ...

    @property
    def client_id(self) -> str:
        """The application's name; "": none."""
        ...

    def tls_context(self) -> TlsContext:
        """Return the TLS with which brokers with `https://` are dialled."""
        ...


@dataclass(frozen=True, slots=True)
class HeartbeatSnapshot:
    """The heartbeat that the event loop handed to the thread, and how long it is valid."""

    request: GroupHeartbeatRequest
    interval_s: float
    poll_by_s: float
    """Monotonic time of the poll deadline. After it the thread stops, so that the session times out."""
    coordinator: Route | None
    brokers: Sequence[Route]
    """Brokers that know the current coordinator."""


class KeepAlive:
    """A daemon thread that starts with the first `beat`."""

    def __init__(self, group_id: str, session: Dialling) -> None:
        self._group_id = group_id
        self._session = session
        self._changed = threading.Condition()
        self._snapshot: HeartbeatSnapshot | None = None
        self._last_beat_s = 0.0
        self._closed = False
        self._thread: threading.Thread | None = None

    def beat(self, snapshot: HeartbeatSnapshot | None) -> None:
        """Note that the event loop runs, and store its heartbeat. None: there is no membership to keep."""
        with self._changed:
            self._snapshot, self._last_beat_s = snapshot, time.monotonic()
        if self._thread is None and snapshot is not None and not self._closed:
            thread = threading.Thread(target=self._run, name=f"raftlog group {self._group_id}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # The system has no thread left; the next beat tries again.
                _log.warning("group %s: no keepalive heartbeats: %s", self._group_id, error)
            else:
                self._thread = thread

    def close(self) -> None:
        """Stop the thread; blocks during an attempt, so do not call it in the event loop's thread."""
        with self._changed:
            self._closed, self._snapshot = True, None
            self._changed.notify()
        if self._thread is not None:
            join(self._thread)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(self._due_in_s())
                if self._closed:
                    return
                snapshot = self._snapshot
                if snapshot is None or self._due_in_s() > 0 or time.monotonic() > snapshot.poll_by_s:
                    continue
                self._last_beat_s = time.monotonic() - 0.5 * snapshot.interval_s  # The next after one interval.
            try:
                self._send(snapshot)
            except ConnectionError as error:
                _log.info("group %s: keepalive heartbeats fail: %s", self._group_id, error)

    def _due_in_s(self) -> float:
        """Return the seconds until the thread must send: 1.5 heartbeat intervals after the last `beat`."""
        if self._snapshot is None or time.monotonic() > self._snapshot.poll_by_s:
            return 1.0
        return max(0.0, self._last_beat_s + 1.5 * self._snapshot.interval_s - time.monotonic())

    def _send(self, snapshot: HeartbeatSnapshot) -> None:
        path = paths.fill(paths.GROUP_HEARTBEAT, group=self._group_id)
        candidates = [snapshot.coordinator] if snapshot.coordinator else []
        for route in (*candidates, *snapshot.brokers):
            try:
                if self._post(route, path, encode_json(snapshot.request)):
                    return
            except (OSError, http.client.HTTPException):
                continue  # The next broker knows the new coordinator.
        raise ConnectionError("no broker answers")

    def _post(self, route: Route, path: str, body: bytes) -> bool:
        """Send one heartbeat, following one redirect; return whether a coordinator answered."""
        fields = {"Content-Type": media.JSON}
        if self._session.authorization:
            fields["Authorization"] = self._session.authorization
        if self._session.client_id:
            fields[media.CLIENT_ID] = self._session.client_id
        for _ in range(2):
            connection = self._connection(route)
            try:
                connection.request("POST", path, body, fields)
                response = connection.getresponse()
                response.read(MAX_ANSWER_BYTES)
                if response.status != 307:
                    return response.status < 500 and response.status != 426
                route = _place(response.headers.get("Location", ""))
            finally:
                connection.close()
        return False

    def _connection(self, route: Route) -> http.client.HTTPConnection:
        if not route.dialled.tls:
            return http.client.HTTPConnection(route.dialled.host, route.dialled.port, timeout=ATTEMPT_S)
        return _TlsConnection(route, self._session.tls_context().current)


class _TlsConnection(http.client.HTTPSConnection):
    """A connection whose server's name may differ from the dialled address."""

    def __init__(self, route: Route, context: ssl.SSLContext) -> None:
        super().__init__(route.dialled.host, route.dialled.port, timeout=ATTEMPT_S, context=context)
        self._tls, self._server_name = context, route.server_name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._server_name)


def _place(location: str) -> Route:
    """Return the broker in the URL of a redirect.

    Raises:
        ConnectionError: there is none.
    """
    try:
        parts = urlsplit(location)
        address = Address.parse(parts.netloc)._replace(tls=parts.scheme == "https")
    except ValueError as error:
        raise ConnectionError(f"a redirect to no broker: {error}") from None
    return Route(address, address.host)
