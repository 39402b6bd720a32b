"""Administrative requests to one broker in this process, over the bytes of Kafka's protocol."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kafka_frame import Frame, broker_for_kafka

from raftlog.broker.kafka import (
    acls_api,
    cluster_api,
    configs_api,
    quotas_api,
    reassignments_api,
    topics_api,
    users_api,
)
from raftlog.broker.kafka.call import KafkaConnectionState, KafkaServices
from raftlog.broker.kafka.dispatch import KafkaDispatch, KafkaRequest
from raftlog.broker.kafka.handlers import joined
from raftlog.security.guard import Guard
from raftlog.security.identity import Peer
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.framing import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
)

AREAS = (topics_api, configs_api, cluster_api, reassignments_api, acls_api, quotas_api, users_api)
KEYS = {api.name: api.key for api in APIS.values()}


def ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


class Asker:
    """Sends messages through the dispatch, encoded and decoded in a version."""

    def __init__(self, frame: Frame, guard: Guard | None = None) -> None:
        self.frame = frame
        self.context = frame.context
        services = KafkaServices(frame.context, parked=frame.parked, inflight=frame.inflight, guard=guard)
        self.dispatch = KafkaDispatch(services, joined(*(area.HANDLERS for area in AREAS)))
        self.connection = KafkaConnectionState(peer=Peer("127.0.0.1"))

    def versions(self, name: str) -> range:
        api = next(one for one in self.dispatch.apis if one.api_key == KEYS[name])
        return range(api.min_version, api.max_version + 1)

    async def __call__(self, message: Any, version: int | None = None) -> Any:
        name = type(message).__name__.removesuffix("Request")
        key = KEYS[name]
        last = self.versions(name)[-1]
        header = RequestHeader(key, last if version is None else version, 7, "tests")
        sent = b"".join(bytes(part) for part in encode_request(header, message))[4:]
        received, at = decode_request_header(sent)
        self.dispatch.require_served(received)
        if (finding := self.dispatch.finding(received, self.connection)) is not None:
            await finding
        call = self.dispatch.call_of(received, self.connection)
        answer = await self.dispatch.answer(KafkaRequest(received, sent, at), call)
        frame = b"".join(bytes(part) for part in await answer.encode())[4:]
        return decode_response(APIS[key], header.api_version, frame, ends=True)[1]


@asynccontextmanager
async def asker(folder: Path, **settings: Any) -> AsyncIterator[Asker]:
    async with broker_for_kafka(folder, ports(3), **settings) as frame:
        await unfenced(frame)
        yield Asker(frame)


async def unfenced(frame: Frame) -> None:
    """Wait until the broker may lead, in its own metadata, too."""
    async with asyncio.timeout(30):
        while not (found := frame.context.listener.image.brokers.get(1)) or found.fenced:
            await asyncio.sleep(0.02)  # The node has no event for it.


def codes(entries: Sequence[Any]) -> list[int]:
    return [entry.error_code for entry in entries]
