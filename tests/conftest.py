"""Fixtures that every test may use."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def free_ports() -> Iterator[Callable[[int], list[int]]]:
    """Return a function that names ports nobody listens on. Prefer binding port 0 where the code allows it."""

    def take(count: int) -> list[int]:
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
            for sock in sockets:
                sock.bind(("127.0.0.1", 0))
            return [sock.getsockname()[1] for sock in sockets]

    return take
