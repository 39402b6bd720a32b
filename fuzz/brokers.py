"""The target of requests: listeners of a controller and a broker answer any request, and still serve other clients."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress
from typing import Self

import orjson
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fuzz.cluster import FuzzedCluster
from fuzz.requests import PATHS, listener_of, requests
from fuzz.target import Finding
from raftlog.model import Address

ANSWER_S = 0.5
"""A parked request may take longer: its answer is not awaited."""
NO_ANSWER = 0


class Brokers:
    """The target: a controller's and a broker's listeners."""

    name = "brokers"

    def __init__(self, cluster: FuzzedCluster) -> None:
        self._cluster = cluster
        self._judged = 0
        self._statuses: Counter[int] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def inputs(self) -> SearchStrategy[bytes]:
        listeners = sorted(self._cluster.listeners)
        return st.sampled_from(PATHS).flatmap(
            lambda path: st.builds(
                lambda to, raw: to.encode() + b"\n" + raw,
                st.one_of(st.just(listener_of(path)), st.just(listener_of(path)), st.sampled_from(listeners)),
                requests(path),
            )
        )

    def judge(self, data: bytes) -> None:
        self._judged += 1
        listener, _, request = data.partition(b"\n")
        answer = _ask(self._cluster.listeners[listener.decode()], request)
        self._statuses[_judged(answer)] += 1
        self._cluster.require_sound()

    def finish(self) -> str:
        self._cluster.require_sound()
        answered = ", ".join(f"{status}: {count}" for status, count in sorted(self._statuses.items()))
        return (
            f"{self._judged} requests ({answered}; 0: no answer), {self._cluster.rounds} rounds of an honest client, "
            f"at most {self._cluster.resident_bytes >> 20} MiB"
        )


def _ask(address: Address, request: bytes) -> bytes:
    """Send bytes, and return the answer within `ANSWER_S`."""
    answer = bytearray()
    with suppress(OSError), socket.create_connection((address.host, address.port), timeout=ANSWER_S) as connection:
        connection.sendall(request)
        while not _is_whole(answer) and (piece := connection.recv(1 << 16)):
            answer += piece
    return bytes(answer)


def _is_whole(answer: bytearray) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    _, found, length = bytes(head).lower().partition(b"content-length: ")
    return bool(end and found) and len(body) >= int(length.split(b"\r\n")[0])


def _judged(answer: bytes) -> int:
    """Return the answer's status.

    Raises:
        Finding: the answer is malformed.
    """
    if not answer:
        return NO_ANSWER
    head, _, body = answer.partition(b"\r\n\r\n")
    first = head.split(b"\r\n")[0].split(b" ")
    if len(first) < 2 or not first[1].isdigit():
        raise Finding(f"no HTTP answer: {answer[:200]!r}")
    status = int(first[1])
    if status == 500:
        raise Finding(f"an input gave a 500: {body[:500]!r}")
    if status >= 400 and body:
        try:
            error = orjson.loads(body)["error"]
            assert error["code"]
            assert error["message"]
        except (ValueError, KeyError, TypeError, AssertionError):
            raise Finding(f"an error of another form: {answer[:500]!r}") from None
    return status
