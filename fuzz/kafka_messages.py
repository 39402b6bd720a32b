"""Messages of Kafka's protocol with some bytes changed: each is read, with work that its size bounds, or refused."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzz.batches import MutatedBatches, changed
from raftlog.wire.kafka.api_keys import APIS, request_codec, response_codec
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.reader import LOOP_ELEMENTS

GOLDEN = Path(__file__).parents[1] / "tests" / "wire" / "kafka" / "golden" / "messages.txt"
_HEAD_BYTES = 3
"""Of an input: the API's key, the version, and 0 for a request or 1 for a response. The message follows."""
_LOOP_S, _RUNS, _BYTES_OF_A_BYTE, _FREE_BYTES = 0.05, 5, 3, 4 << 20


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


def _shortest(work: Callable[[], object]) -> float:
    """Return the CPU seconds of `work`, the least of some runs: one run may contain a garbage collection."""
    took = math.inf
    for _ in range(_RUNS):
        began = time.thread_time()
        work()
        took = min(took, time.thread_time() - began)
        if took <= _LOOP_S:
            break
    return took


def judge(data: bytes) -> str:
    """Return what the codec did wrong with a message, or ""."""
    if len(data) < _HEAD_BYTES or data[0] not in APIS:
        return ""
    codec = (response_codec if data[2] else request_codec)(data[0])
    version, body = data[1], memoryview(data)[_HEAD_BYTES:]

    def decode() -> Any:
        try:
            return codec.decode(version, body, max_elements=LOOP_ELEMENTS)
        except KafkaProtocolError:
            return None

    took = _shortest(decode)
    if took > _LOOP_S:
        return f"took {1000 * took:.0f} ms"
    tracemalloc.start()
    message, peak = decode(), tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if peak > _FREE_BYTES + _BYTES_OF_A_BYTE * len(data):
        return f"took {peak} bytes for a message of {len(data)}"
    if message is None:
        return ""
    again = b"".join(codec.encode(version, message))
    twice = codec.decode(version, again, ends=True)
    return "" if b"".join(codec.encode(version, twice)) == again else "what is written is not what was read"
