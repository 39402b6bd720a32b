"""Links over Toxiproxy: they heal also where a connection ended that held much."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos import links as links_module
from chaos.links import Links
from raftlog.model import Address

MUCH = 20 << 20


@pytest.fixture
def links(tmp_path: Path) -> Iterator[Links]:
    links = Links(tmp_path)
    links.start()
    yield links
    links.stop()


def end_with_much_in_flight(listening: socket.socket, listen: Address) -> None:
    """Open a connection through the link, let the target send much, and reset the connection before it arrives."""
    with socket.create_connection((listen.host, listen.port)) as source:
        target, _ = listening.accept()
        with target:
            target.settimeout(10)
            target.sendall(bytes(MUCH))
            source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            source.close()


@pytest.mark.parametrize("refuses", [False, True])
def test_a_link_heals_whose_connection_ended_with_much_in_flight(
    links: Links, free_ports: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch, refuses: bool
):
    monkeypatch.setattr(links_module, "HEAL_TIMEOUT_S", 1)
    (port,) = free_ports(1)
    listen = Address("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        links.add("a", "b", upstream=Address(*listening.getsockname()), listen=listen)
        links.slow_both_ways("a", "b", latency_ms=1_000)
        end_with_much_in_flight(listening, listen)
        if refuses:
            links.refuse("b")
        began = time.monotonic()
        links.heal()
        assert time.monotonic() - began < 5
        if refuses:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((listen.host, listen.port))
            links.accept("b")
        with socket.create_connection((listen.host, listen.port), timeout=10) as source:
            target, _ = listening.accept()
            with target:
                began = time.monotonic()
                target.sendall(b"soon")
                assert source.recv(4) == b"soon"
                assert time.monotonic() - began < 0.9
