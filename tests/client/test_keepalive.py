"""Heartbeats from the thread, from servers that answer what no coordinator answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from raftlog.client.keepalive import HeartbeatSnapshot, KeepAlive, Route
from raftlog.model import Address
from raftlog.transport import HttpSession
from raftlog.wire.groups import GroupHeartbeatRequest

INTERVAL_S = 0.05


class _Server(ThreadingHTTPServer):
    def __init__(self, status: int, fields: dict[str, str], body: bytes = b"") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.fields, self.body = status, fields, body
        self.was_asked_twice = threading.Event()
        self.asked = 0

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.server.asked += 1
        if self.server.asked > 1:
            self.server.was_asked_twice.set()
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.status == 0:
            self.wfile.write(self.server.body)
            return
        self.send_response(self.server.status)
        for name, value in self.server.fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(status: int, fields: dict[str, str], body: bytes = b"") -> Iterator[_Server]:
    with _Server(status, fields, body) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def keeping_alive(coordinator: Address, *brokers: Address) -> Iterator[KeepAlive]:
    keepalive = KeepAlive("g", HttpSession())
    request = GroupHeartbeatRequest(member_id="m", member_epoch=1)
    routes = [Route(broker, broker.host) for broker in (coordinator, *brokers)]
    keepalive.beat(HeartbeatSnapshot(request, INTERVAL_S, time.monotonic() + 60, routes[0], routes[1:]))
    try:
        yield keepalive
    finally:
        keepalive.close()


@pytest.mark.parametrize(
    ("status", "fields", "body"),
    [
        (307, {}, b""),
        (307, {"Location": "http://[::1"}, b""),
        (307, {"Location": "http://\x1b[31m/"}, b""),
        (307, {"Location": "http://a:99999/"}, b""),
        (307, {"Location": "/v1/elsewhere"}, b""),
        (0, {}, b"SSH-2.0-OpenSSH_9.6\r\n"),
        (500, {}, b"x" * 1_000_000),
    ],
)
@pytest.mark.usefixtures("no_thread_fails")
def test_no_answer_ends_the_thread_and_the_next_broker_is_asked(status: int, fields: dict[str, str], body: bytes):
    with (
        serving(status, fields, body) as odd,
        serving(200, {}) as broker,
        keeping_alive(odd.address, broker.address),
    ):
        assert odd.was_asked_twice.wait(10)
        assert broker.asked


@pytest.mark.usefixtures("no_thread_fails")
def test_a_redirect_is_followed():
    with serving(200, {}) as coordinator:
        fields = {"Location": f"http://{coordinator.address}/v1/groups/g/heartbeat"}
        with serving(307, fields) as broker, keeping_alive(broker.address):
            assert coordinator.was_asked_twice.wait(10)


@pytest.fixture
def no_thread_fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: failed.append(failure.exc_value))
    yield
    assert failed == []


def test_heartbeats_go_on_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch):
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")]

    def starting(thread: threading.Thread) -> None:
        if failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    keepalive = KeepAlive("g", HttpSession())
    snapshot = HeartbeatSnapshot(GroupHeartbeatRequest(member_id="m", member_epoch=1), 60.0, 0.0, None, [])
    keepalive.beat(snapshot)
    keepalive.close()
    assert keepalive._thread is None

    again = KeepAlive("g", HttpSession())
    failures.append(RuntimeError("can't start new thread"))
    again.beat(snapshot)
    again.beat(snapshot)
    assert again._thread is not None
    again.close()
