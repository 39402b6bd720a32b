"""Requests with any values in any field: each is answered or closes its connection, and nothing else happens."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
import pytest_asyncio
from kafka_frame import Frame, broker_for_kafka
from kafka_listener import Client, api_versions, request

from raftlog import Admin
from raftlog.broker.kafka.handlers import HANDLERS
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.errors import KafkaProtocolError
from tests.broker.listener_support import connected

pytestmark = pytest.mark.cluster
NUMBERS = (0, 1, -1, 2, 3, 5, 100, -2, 127, -128, 32_767, 2**31 - 1, -(2**31), 2**63 - 1)
TEXTS = (
    "",
    "t",
    "g",
    "missing",
    "__consumer_offsets",
    "x" * 300,
    "é\0\n",
    "*",
    "1",
    "cluster",
    "ANONYMOUS",
    "-1",
    "{}",
)
SEED = 20_260_805


@pytest_asyncio.fixture
async def frame(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> AsyncIterator[Frame]:
    settings = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1, "request_timeout_ms": 500}
    async with broker_for_kafka(tmp_path, free_ports(3), **settings) as frame:
        url = f"http://{frame.context.config.public}"
        async with asyncio.timeout(30), Admin(url) as admin:
            while not frame.context.listener.image.brokers or frame.context.lifecycle.fenced:
                await asyncio.sleep(0.02)
            await admin.create_topic("t", partitions=2)
        yield frame


def filled(cls: Any, drawn: random.Random, depth: int = 0) -> Any:
    """Return a message with drawn values in some fields."""
    hints = get_type_hints(cls, vars(sys.modules[cls.__module__]))
    values = {}
    for field in dataclasses.fields(cls):
        if drawn.random() < 0.8:
            values[field.name] = value_of(hints[field.name], drawn, depth)
    return cls(**values)


def value_of(hint: Any, drawn: random.Random, depth: int) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return value_of(drawn.choice(get_args(hint)), drawn, depth)
    if get_origin(hint) is list:
        count = drawn.choice((0, 1, 1, 2, 3)) if depth < 4 else 0
        return [value_of(get_args(hint)[0], drawn, depth + 1) for _ in range(count)]
    if dataclasses.is_dataclass(hint):
        return filled(hint, drawn, depth + 1)
    if hint is bool:
        return drawn.random() < 0.5
    if hint is int:
        return drawn.choice(NUMBERS[: drawn.choice((4, 8, len(NUMBERS)))])
    if hint is float:
        return drawn.choice((0.0, -1.0, 1e300, float("nan"), float("inf")))
    if hint is str:
        return drawn.choice(TEXTS)
    if hint in (bytes, bytearray, memoryview):
        return drawn.choice((b"", bytes(16), b"x" * 16, b"x" * 70))
    return None


def requests_of(key: int, drawn: random.Random, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield versions and frames of an API, some of them cut or changed."""
    handler, api = HANDLERS[key], APIS[key]
    first, last = getattr(handler, "first", None), getattr(handler, "last", None)
    cls = getattr(import_module(f"raftlog.wire.kafka.messages.{api.module}"), f"{api.name}Request")
    for _ in range(count):
        version = drawn.randint(api.first if first is None else first, api.last_stable if last is None else last)
        try:
            frame = bytearray(request(key, version, filled(cls, drawn), correlation=7))
        except KafkaProtocolError:
            continue  # A value does not fit the field of this version.
        if drawn.random() < 0.3 and len(frame) > 20:
            frame[drawn.randrange(14, len(frame))] = drawn.randrange(256)
        yield version, bytes(frame)


@pytest.mark.parametrize("key", sorted(HANDLERS), ids=lambda key: APIS[key].name)
async def test_any_values_are_answered_or_close_the_connection(
    frame: Frame, key: int, caplog: pytest.LogCaptureFixture
):
    drawn, answered = random.Random(SEED + key), 0
    for _, wanted in requests_of(key, drawn, 120):
        async with connected(frame.context.config.public) as streams:
            kafka = Client(*streams)
            await kafka.send(wanted, api_versions(99))  # The second answers where acks=0 has no answer.
            try:
                async with asyncio.timeout(20):
                    await kafka.frame()
                answered += 1
            except (asyncio.IncompleteReadError, ConnectionError):
                pass  # Closed.
            except TimeoutError:
                pytest.fail(f"no answer to {wanted!r}")
    assert answered > 5
    bugs = [one.getMessage() for one in caplog.records if one.exc_info is not None]
    assert bugs == []
    assert frame.inflight.bytes == frame.inflight.requests == frame.inflight.answer_bytes == 0
