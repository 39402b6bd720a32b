"""The controllers' HTTP listener: brokers' requests, long polls, errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from controller_support import Bench

from raftlog.errors import ErrorCode, RaftlogError, RetriableError, StaleRouteError
from raftlog.metadata_quorum.http import ControllerRoutes
from raftlog.metadata_quorum.image_codec import image_from_plain
from raftlog.metadata_quorum.records import FEATURE_LEVEL
from raftlog.model import Address
from raftlog.runtime import Tasks
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.admin import QuorumResponse
from raftlog.wire.controller import (
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataUpdate,
    ProducerIdBlock,
    ProducerIdBlockRequest,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from raftlog.wire.metadata import ControllerInfo, CreateTopicRequest, DeleteTopicRequest


def describe_quorum(controller_epoch: int) -> QuorumResponse:
    return QuorumResponse(
        leader_id=101, term=7, controller_epoch=controller_epoch, log_end_offset=9, committed_offset=8, voters=()
    )


class Listener(Bench):
    """A controller behind its listener."""

    async def open(self) -> None:
        self.tasks, self.session = Tasks("listener"), HttpSession()
        voters = {101: Address("127.0.0.1", 1), 103: Address("127.0.0.1", 3)}
        self.server = TestServer(self.routes(voters).application(), host="127.0.0.1")
        await self.server.start_server()
        self.address = Address("127.0.0.1", self.server.port or 0)

    def routes(self, voters: dict[int, Address]) -> ControllerRoutes:
        return ControllerRoutes(self.controller, voters, self.tasks, describe_quorum)

    async def shut(self) -> None:
        await self.session.close()
        await self.server.close()
        await self.tasks.close()
        await self.controller.close()

    async def post(self, cls, path: str, message: object):
        return await self.session.call(cls, "POST", self.address, path, timeout_ms=5_000, message=message)

    async def get(self, cls, path: str, **query: int):
        return await self.session.call(cls, "GET", self.address, path, timeout_ms=30_000, query=query)

    async def registered(self, broker: int) -> int:
        request = RegisterBrokerRequest(
            cluster_id="c",
            broker_id=broker,
            incarnation_id="i",
            public=Address("h", 1),
            internal=Address("h", 2),
            max_feature_level=FEATURE_LEVEL,
        )
        answer = await self.post(RegisterBrokerResponse, paths.REGISTER_BROKER, request)
        return answer.broker_epoch


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    await listener.open()
    await listener.quorum.start()
    await listener.active()
    yield listener
    await listener.shut()


async def test_a_broker_registers_reads_the_metadata_and_is_unfenced(listener: Listener):
    epoch = await listener.registered(1)
    update = await listener.get(MetadataUpdate, paths.METADATA_WATCH, after_offset=-1, max_wait_ms=0, broker_id=1)
    early = HeartbeatRequest(broker_id=1, broker_epoch=epoch, metadata_offset=epoch - 1)
    ready = HeartbeatRequest(broker_id=1, broker_epoch=epoch, metadata_offset=update.end_offset)

    assert image_from_plain(update.snapshot or {}) == listener.controller.image
    assert (await listener.post(HeartbeatResponse, paths.HEARTBEAT, early)).fenced
    assert not (await listener.post(HeartbeatResponse, paths.HEARTBEAT, ready)).fenced


async def test_topics_producer_ids_and_isr_changes(listener: Listener):
    epoch = await listener.join(1)
    answer = await listener.session.request(
        "POST", listener.address, paths.CREATE_TOPIC, timeout_ms=5_000, body=b'{"topic":"t"}'
    )
    assert answer.status == 200
    assert f'"metadata_offset":{listener.controller.image.offset}'.encode() in answer.body
    block = ProducerIdBlockRequest(broker_id=1, broker_epoch=epoch)
    assert (await listener.post(ProducerIdBlock, paths.PRODUCER_ID_BLOCK, block)).first == 0
    assert (await listener.post(ProducerIdBlock, paths.PRODUCER_ID_BLOCK, block)).first == 1_000
    nothing = AlterPartitionsRequest(broker_id=1, broker_epoch=epoch, partitions=())
    assert (await listener.post(AlterPartitionsResponse, paths.ALTER_PARTITIONS, nothing)).partitions == ()

    await listener.session.request(
        "POST", listener.address, paths.DELETE_TOPIC, timeout_ms=5_000, body=b'{"topic":"t"}'
    )
    assert listener.controller.image.names == {}
    with pytest.raises(RaftlogError) as gone:
        await listener.post(DeleteTopicRequest, paths.DELETE_TOPIC, DeleteTopicRequest(topic="t"))
    assert gone.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_standby_names_the_active_controllers_address(listener: Listener):
    listener.quorum.elect(103)
    with pytest.raises(StaleRouteError) as refused:
        await listener.registered(1)

    assert refused.value.details == {"controller_id": 103, "internal": "127.0.0.1:3"}


async def test_readiness_and_who_is_active(listener: Listener):
    info = await listener.get(ControllerInfo, paths.CONTROLLER)
    assert (info.controller_id, info.url, info.voters) == (101, "http://127.0.0.1:1", (101, 103))
    for path in (paths.LIVEZ, paths.READYZ):
        assert (await listener.session.request("GET", listener.address, path, timeout_ms=5_000)).status == 200

    listener.quorum.elect(103)  # Whose epoch has not been applied here yet.
    with pytest.raises(StaleRouteError):
        await listener.get(ControllerInfo, paths.CONTROLLER)
    info = await listener.session.call(
        ControllerInfo, "GET", listener.address, f"{paths.CONTROLLER}?consistency=local", timeout_ms=5_000
    )
    assert (info.controller_id, info.url) == (-1, "")
    with pytest.raises(RaftlogError) as unready:
        await listener.session.request("GET", listener.address, paths.READYZ, timeout_ms=5_000)
    assert unready.value.code is ErrorCode.QUORUM_NOT_AVAILABLE


async def test_a_watch_is_woken_by_the_next_entry(listener: Listener):
    await listener.join(1)
    end = listener.controller.image.offset
    watching = asyncio.ensure_future(
        listener.get(MetadataUpdate, paths.METADATA_WATCH, after_offset=end, max_wait_ms=20_000)
    )
    await listener.until(lambda: bool(listener.controller.publisher._wakers))
    await listener.controller.create_topic(CreateTopicRequest(topic="t"))
    async with asyncio.timeout(5):
        update = await watching

    assert update.entries[0].records[0]["kind"] == "CreateTopic"


@pytest.mark.parametrize("gone", [True, False])
async def test_a_broker_that_hangs_up_is_fenced_at_once_if_its_process_is_gone(listener: Listener, gone: bool):
    await listener.join(1)
    listener.gone, probed = gone, asyncio.Event()
    real = listener.controller._is_down

    async def probe(address: Address) -> bool:
        probed.set()
        return await real(address)  # type: ignore[misc]

    listener.controller._is_down = probe
    query = {"after_offset": listener.controller.image.offset, "max_wait_ms": 20_000, "broker_id": 1}
    watching = asyncio.ensure_future(listener.get(MetadataUpdate, paths.METADATA_WATCH, **query))
    await listener.until(lambda: bool(listener.controller.publisher._wakers))
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    async with asyncio.timeout(5):
        await probed.wait()
    await listener.until(lambda: not listener.tasks._tasks)

    assert listener.controller.image.brokers[1].fenced is gone


async def test_a_decision_outlives_the_caller_that_hung_up(listener: Listener):
    await listener.join(1)
    listener.quorum.hold = asyncio.Event()
    caller = asyncio.ensure_future(listener.post(object, paths.CREATE_TOPIC, CreateTopicRequest(topic="t")))
    await listener.until(lambda: bool(listener.tasks._tasks))
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await asyncio.sleep(0.05)  # The server notices that the connection is lost.
    listener.quorum.hold.set()
    await listener.until(lambda: not listener.tasks._tasks)

    assert list(listener.controller.image.names) == ["t"]
    assert listener.controller.is_active


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", paths.HEARTBEAT, b"{", 400, "INVALID_REQUEST"),
        ("POST", paths.HEARTBEAT, b"[]", 400, "INVALID_REQUEST"),
        ("POST", paths.HEARTBEAT, b'{"broker_id":"1"}', 400, "INVALID_REQUEST"),
        ("POST", paths.HEARTBEAT, b"\xff\xfe", 400, "INVALID_REQUEST"),
        ("POST", paths.CREATE_TOPIC, b'{"topic":"a/b"}', 400, "INVALID_TOPIC_EXCEPTION"),
        ("GET", paths.METADATA_WATCH + "?after_offset=x", b"", 400, "INVALID_REQUEST"),
        ("GET", paths.HEARTBEAT, b"", 405, "NOT_FOUND"),
        ("GET", "/nowhere", b"", 404, "NOT_FOUND"),
    ],
)
async def test_bad_requests_get_an_error_body(
    listener: Listener, method: str, path: str, body: bytes, status: int, code: str
):
    url = f"http://{listener.address}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url, data=body) as answer:
        assert answer.status == status
        assert (await answer.json())["error"]["code"] == code


async def test_our_own_bug_answers_500_and_says_nothing_of_the_inside(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("raftlog.metadata_quorum.active_controller.decide_heartbeat", fail)
    url = f"http://{listener.address}{paths.HEARTBEAT}"
    body = b'{"broker_id":1,"broker_epoch":1,"metadata_offset":1}'
    async with aiohttp.ClientSession() as session, session.post(url, data=body) as answer:
        text = await answer.text()

    assert answer.status == 500
    assert "secret" not in text
    assert "ZeroDivisionError" in caplog.text


async def test_a_request_while_the_controller_shuts_down_is_told_to_come_again(
    listener: Listener, caplog: pytest.LogCaptureFixture
):
    """It was a 500 with a traceback in the log."""
    await listener.tasks.close()
    with pytest.raises(RetriableError, match="listener is closed; nothing was done") as caught:
        await listener.registered(1)
    assert caught.value.http_status == 503
    assert "Traceback" not in caplog.text
