"""The target of Kafka's protocol: a broker's public listener answers any frames, and still serves other clients."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from contextlib import suppress
from typing import Any, Self

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fuzz import kafka_messages
from fuzz.batches import changed, changes
from fuzz.cluster import FuzzedCluster
from fuzz.target import Finding
from raftlog.wire.kafka.api_keys import APIS, Api
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.framing import LENGTH_BYTES, MAX_FRAME_BYTES, decode_response

ANSWER_S = 0.3
"""A parked request may take longer, and one with acks=0 has no answer: neither is awaited."""
_HEAD = struct.Struct(">hhih")
_OTHER = 3
"""The first byte of an input whose frames were changed: its answers are not compared with its requests."""


class KafkaBrokers:
    """The target: requests of every API and version, with changes, one to three on a connection."""

    name = "kafka_brokers"

    def __init__(self, cluster: FuzzedCluster) -> None:
        self._cluster = cluster
        self._seen: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def inputs(self) -> SearchStrategy[bytes]:
        requests = [seed for seed in kafka_messages.seeds() if not seed[2]]
        some = st.one_of(st.just([]), st.just([]), st.lists(changes(), min_size=1, max_size=4))
        message = st.builds(kafka_messages.mutated, st.sampled_from(requests), some)
        framed = st.lists(message, min_size=1, max_size=3).map(_framed)
        return st.builds(_input, framed, some)

    def judge(self, data: bytes) -> None:
        frames = data[1:]
        answer = self._ask(frames)
        if data[:1] == b"\0":
            self._seen[_judged(frames, answer)] += 1
        else:
            self._seen["changed frames"] += 1
        self._cluster.require_sound()

    def finish(self) -> str:
        self._cluster.require_sound()
        seen = ", ".join(f"{what}: {count}" for what, count in sorted(self._seen.items()))
        return f"{self._seen.total()} connections of Kafka's protocol ({seen})"

    def _ask(self, frames: bytes) -> bytes:
        """Send bytes, and return what comes within `ANSWER_S` of the last piece."""
        address, answer = self._cluster.listeners["public"], bytearray()
        with suppress(OSError), socket.create_connection((address.host, address.port), timeout=ANSWER_S) as connection:
            connection.sendall(frames)
            while not _has_first(answer) and (piece := connection.recv(1 << 16)):
                answer += piece
        return bytes(answer)


def _input(frames: bytes, how: list[Any]) -> bytes:
    return bytes([_OTHER if how else 0]) + changed(frames, how)


def _framed(messages: list[bytes]) -> bytes:
    """Return the frames of requests, numbered from 0: a message begins with its API and version (`kafka_messages`)."""
    frames = bytearray()
    for number, message in enumerate(messages):
        key, version = message[0], message[1]
        tags = b"\0" if APIS[key].is_flexible(version) else b""
        content = _HEAD.pack(key, version, number, -1) + tags + message[3:]
        frames += struct.pack(">i", len(content)) + content
    return bytes(frames)


def _apis(frames: bytes) -> list[tuple[Api, int]]:
    """Return the API and the version of each frame."""
    found, at = list[tuple[Api, int]](), 0
    while at < len(frames):
        key, version, _, _ = _HEAD.unpack_from(frames, at + LENGTH_BYTES)
        found.append((APIS[key], version))
        at += LENGTH_BYTES + int.from_bytes(frames[at : at + LENGTH_BYTES], "big")
    return found


def _has_first(answer: bytes | bytearray) -> bool:
    if len(answer) < LENGTH_BYTES:
        return False
    return len(answer) >= LENGTH_BYTES + int.from_bytes(answer[:LENGTH_BYTES], "big")


def _judged(frames: bytes, answer: bytes) -> str:
    """Return what the first answer is. The frames are intact: only messages in them were changed.

    Raises:
        Finding: the answer is malformed, or of another request.
    """
    if not answer:
        return "no answer"
    length = int.from_bytes(answer[:LENGTH_BYTES], "big")
    if length > MAX_FRAME_BYTES or not _has_first(answer):
        raise Finding(f"no whole frame came: {answer[:100]!r}")
    number = int.from_bytes(answer[LENGTH_BYTES : 2 * LENGTH_BYTES], "big")
    if number >= len(apis := _apis(frames)):
        raise Finding(f"{len(apis)} requests were sent, and the answer is of number {number}")
    api, version = apis[number]
    try:
        decode_response(api, version, memoryview(answer)[LENGTH_BYTES : LENGTH_BYTES + length], ends=True)
    except KafkaProtocolError as error:
        raise Finding(f"the answer to {api.name} version {version} is malformed: {error}") from None
    return "answered"
