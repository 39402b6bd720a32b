"""Messages of Kafka's protocol with some bytes changed: each is read, with work that its size bounds, or refused."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.batches import MutatedBatches, changed
from raftlog.wire.kafka.api_keys import APIS, request_codec, response_codec
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.reader import LOOP_ELEMENTS

GOLDEN = Path(__file__).parents[1] / "tests" / "wire" / "kafka" / "golden" / "messages.txt"
_HEAD_BYTES = 3
"""Of an input: the API's key, the version, and 0 for a request or 1 for a response. The message follows."""
_LOOP_S, _BYTES_OF_A_BYTE, _FREE_BYTES = 0.05, 3, 4 << 20


class KafkaMessages(MutatedBatches):
    """The target: requests as a broker receives them, and responses as a client does."""

    def __init__(self) -> None:
        super().__init__("kafka_messages", "messages of Kafka", judge=judge, mutated=mutated, seeds=seeds)


def seeds() -> list[bytes]:
    """Return valid messages of every API and version."""
    return list(_golden())


def _golden() -> Iterator[bytes]:
    keys = {f"{api.name}{kind}": (api.key, number) for api in APIS.values() for number, kind in enumerate(_KINDS)}
    for line in GOLDEN.read_text().splitlines():
        name, version, _, data = line.split(" ")
        if name in keys:
            key, kind = keys[name]
            yield bytes([key, int(version), kind]) + bytes.fromhex(data)


_KINDS = ("Request", "Response")


def mutated(data: bytes, how: list[Any]) -> bytes:
    """Return a message with some changes: to itself, and not to what it is."""
    return data[:_HEAD_BYTES] + changed(data[_HEAD_BYTES:], how)


def judge(data: bytes) -> str:
    """Return what the codec did wrong with a message, or ""."""
    if len(data) < _HEAD_BYTES or data[0] not in APIS:
        return ""
    codec = (response_codec if data[2] else request_codec)(data[0])
    version, body = data[1], memoryview(data)[_HEAD_BYTES:]
    tracemalloc.start()
    began = time.thread_time()
    try:
        message = codec.decode(version, body, max_elements=LOOP_ELEMENTS)
    except KafkaProtocolError:
        message = None
    took, peak = time.thread_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if took > 3 * _LOOP_S:  # tracemalloc takes two thirds of it
        return f"took {1000 * took:.0f} ms"
    if peak > _FREE_BYTES + _BYTES_OF_A_BYTE * len(data):
        return f"took {peak} bytes for a message of {len(data)}"
    if message is None:
        return ""
    again = b"".join(codec.encode(version, message))
    twice = codec.decode(version, again, ends=True)
    return "" if b"".join(codec.encode(version, twice)) == again else "what is written is not what was read"
