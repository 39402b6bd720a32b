"""The single writer: epochs, lost outcomes, sessions, the publisher."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from controller_support import Bench, joined

from raftlog.errors import ErrorCode, RaftlogError, RetriableError, StaleRouteError, UnknownOutcomeError
from raftlog.metadata_quorum.image_codec import image_from_plain
from raftlog.metadata_quorum.records import FEATURE_LEVEL, Command, CreateTopic, encode_command
from raftlog.metadata_quorum.sessions import Sessions
from raftlog.model import Address
from raftlog.wire.admin import AdminResponse
from raftlog.wire.codec import decode_json, encode_json
from raftlog.wire.controller import MetadataUpdate, RegisterBrokerRequest
from raftlog.wire.metadata import CreateTopicRequest


def received(update: MetadataUpdate) -> MetadataUpdate:
    """What a broker makes of an answer."""
    return decode_json(MetadataUpdate, encode_json(update))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.controller.start()
    await bench.quorum.start()
    yield bench
    await bench.controller.close()


async def test_it_acts_only_in_an_epoch_of_its_own():
    bench = Bench()
    bench.quorum.hold = asyncio.Event()
    await bench.quorum.start()
    early = asyncio.ensure_future(bench.join(1))
    await asyncio.sleep(0)
    assert not bench.controller.is_active
    assert bench.quorum.log == []

    bench.quorum.hold.set()
    epoch = await early

    assert (bench.controller.image.controller_epoch, bench.controller.image.controller_id) == (1, 101)
    assert bench.controller.image.brokers[1].broker_epoch == epoch == 2
    assert not bench.controller.image.brokers[1].fenced
    await bench.controller.close()


async def test_a_standby_says_who_decides(bench: Bench):
    await bench.active()
    bench.quorum.elect(103)

    with pytest.raises(StaleRouteError) as refused:
        await bench.join(1)

    assert (refused.value.code, refused.value.details) == (ErrorCode.NOT_CONTROLLER, {"controller_id": 103})


async def test_decisions_are_made_one_after_another(bench: Bench):
    await bench.active()
    await bench.join(1)

    outcomes = await asyncio.gather(
        *(bench.controller.create_topic(CreateTopicRequest(topic="same")) for _ in range(5)), return_exceptions=True
    )

    assert sum(isinstance(outcome, AdminResponse) for outcome in outcomes) == 1
    codes = [outcome.code for outcome in outcomes if isinstance(outcome, RaftlogError)]
    assert codes == [ErrorCode.TOPIC_ALREADY_EXISTS] * 4


async def test_after_an_unknown_outcome_it_begins_a_new_epoch_that_voids_the_lost_command(bench: Bench):
    await bench.active()
    await bench.join(1)
    bench.quorum.errors = [UnknownOutcomeError("lost")]

    with pytest.raises(RetriableError, match="nothing was done"):
        await bench.controller.create_topic(CreateTopicRequest(topic="lost"))
    await bench.active()
    late = Command(controller_epoch=1, sequence=99, records=(CreateTopic(topic="late", topic_id="a" * 32),))
    bench.quorum.commit(encode_command(late))
    await bench.controller.create_topic(CreateTopicRequest(topic="next"))

    assert list(bench.controller.image.names) == ["next"]
    assert bench.controller.image.controller_epoch > 1


async def test_silence_ends_a_session_and_a_new_epoch_starts_them_all_afresh(bench: Bench):
    await bench.active()
    first, second = await bench.join(1), await bench.join(2)
    bench.clock.now_ms = 2_900
    await bench.beat(2, second)
    bench.clock.now_ms = 3_100
    await bench.until(lambda: bench.controller.image.brokers[1].fenced)
    assert not bench.controller.image.brokers[2].fenced
    await bench.beat(1, first)
    assert not bench.controller.image.brokers[1].fenced

    bench.clock.now_ms = 3_200
    bench.quorum.elect(None)
    bench.clock.now_ms = 100_000
    bench.quorum.elect(101)
    await bench.active()
    bench.clock.now_ms = 102_900
    await asyncio.sleep(0.02)  # Several checks: none of them may fence.
    assert not any(broker.fenced for broker in bench.controller.image.brokers.values())


async def test_a_controller_that_stood_still_ends_no_session(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    """Its disk was slow, or it was frozen. The heartbeats that came meanwhile wait in its sockets."""
    await bench.active()
    monkeypatch.setattr(bench.clock, "monotonic_ms", lambda: time.monotonic_ns() // 1_000_000)
    monkeypatch.setattr(bench.controller, "_sessions", Sessions(timeout_ms=500))
    await bench.join(1)
    for _ in range(3):
        await asyncio.sleep(0.02)
        time.sleep(0.7)  # noqa: ASYNC251  (it stands still)
    await asyncio.sleep(0.02)  # Several checks.
    assert not bench.controller.image.brokers[1].fenced
    await bench.until(lambda: bench.controller.image.brokers[1].fenced)


async def test_a_node_that_stops_judges_no_sessions(bench: Bench):
    """Its listeners are closed, so no heartbeat arrives, and it fenced every broker."""
    await bench.active()
    await bench.join(1)
    await bench.controller.stop_fencing()
    bench.clock.now_ms = 100_000
    await asyncio.sleep(0.02)  # Several checks.
    assert not bench.controller.image.brokers[1].fenced


async def test_a_second_process_is_refused_even_if_it_comes_while_an_epoch_begins(bench: Bench):
    await bench.active()
    await bench.join(1)
    bench.quorum.elect(None)
    bench.clock.now_ms = 50_000  # The sessions of the last epoch are long over; those of the next begin afresh.
    bench.quorum.hold = asyncio.Event()
    bench.quorum.elect(101)
    request = RegisterBrokerRequest(
        cluster_id="c",
        broker_id=1,
        incarnation_id="second",
        public=Address("h", 1),
        internal=Address("h", 2),
        max_feature_level=FEATURE_LEVEL,
    )
    second = asyncio.ensure_future(bench.controller.register(request))
    await asyncio.sleep(0)
    bench.quorum.hold.set()

    with pytest.raises(RaftlogError) as refused:
        await second
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


async def test_a_lost_connection_fences_only_a_process_that_is_gone(bench: Bench):
    await bench.active()
    await bench.join(1)

    await bench.controller.probe(1)
    assert not bench.controller.image.brokers[1].fenced
    bench.gone = True
    await bench.controller.probe(1)
    assert bench.controller.image.brokers[1].fenced


@pytest.mark.parametrize("standby", [True, False])
async def test_a_standby_that_takes_over_probes_brokers_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, standby: bool
):
    """A broker that died with the active controller kept its leaderships for 0.8 s more. Not so in a cold start."""
    await bench.active()
    for broker in (1, 2):
        await bench.join(broker)
    probed = []

    async def is_down(address: Address) -> bool:
        probed.append(address)
        return True

    monkeypatch.setattr(bench.controller, "_is_down", is_down)
    bench.quorum.elect(102 if standby else None)
    bench.quorum.elect(101)
    await bench.active()
    await bench.controller._check_sessions()
    await bench.controller._check_sessions()
    assert len(probed) == (2 if standby else 0)
    assert all(broker.fenced is standby for broker in bench.controller.image.brokers.values())


async def test_silent_brokers_are_looked_for_all_at_once_and_no_error_ends_that(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    await bench.active()
    for broker in (1, 2, 3):
        await bench.join(broker)
    asked, everybody = [], asyncio.Event()

    async def is_down(address: Address) -> bool:
        asked.append(address)
        if len(asked) == 1:
            raise KeyError("a bug")
        if len(asked) >= 3:
            everybody.set()
        await everybody.wait()  # Each answers only once all three are asked.
        return True

    monkeypatch.setattr(bench.controller, "_is_down", is_down)
    bench.clock.now_ms = 2_000
    await bench.until(lambda: all(broker.fenced for broker in bench.controller.image.brokers.values()))


async def test_brokers_get_a_snapshot_then_entries_then_wait(bench: Bench):
    await bench.active()
    publisher = bench.controller.publisher
    everything = await publisher.updates(-1, max_wait_ms=0)
    assert everything.snapshot is not None
    assert image_from_plain(received(everything).snapshot) == bench.controller.image

    waiting = asyncio.ensure_future(publisher.updates(everything.end_offset, max_wait_ms=10_000))
    await bench.join(1)
    update = await waiting
    rest = await publisher.updates(update.end_offset, max_wait_ms=0)

    kinds = [
        record["kind"] for entry in (*received(update).entries, *received(rest).entries) for record in entry.records
    ]
    assert kinds == ["RegisterBroker", "UnfenceBroker"]
    end = max(update.end_offset, rest.end_offset)
    assert (await publisher.updates(end, max_wait_ms=1)).entries == ()


async def test_a_loaded_snapshot_is_where_brokers_start_again(bench: Bench):
    await bench.active()
    await bench.join(1)
    taken, index = bench.controller.take_snapshot(), len(bench.quorum.log)

    other = Bench()
    other.controller.load_snapshot(index, taken)

    assert other.controller.image == bench.controller.image
    assert (await other.controller.publisher.updates(0, max_wait_ms=0)).snapshot is not None


async def test_a_process_that_came_back_while_it_was_looked_for_keeps_its_session(bench: Bench):
    await bench.active()
    await bench.join(1)

    async def comes_back(_: Address) -> bool:
        bench.clock.now_ms += 3_001
        again = RegisterBrokerRequest(
            cluster_id="c",
            broker_id=1,
            incarnation_id="another",
            public=Address("h", 1),
            internal=Address("h", 2),
            max_feature_level=FEATURE_LEVEL,
        )
        registered = await bench.controller.register(again)
        await bench.beat(1, registered.broker_epoch)
        return True

    bench.controller._is_down = comes_back
    await bench.controller.probe(1)
    await bench.controller._check_sessions()

    known = bench.controller.image.brokers[1]
    assert (known.incarnation_id, known.fenced) == ("another", False)


async def test_a_broker_whose_heartbeat_waited_for_the_same_lock_is_not_fenced():
    async with joined() as bench:
        (broker,) = bench.controller.image.brokers.values()
        bench.clock.now_ms += 60_000
        bench.quorum.hold = asyncio.Event()
        creating = asyncio.ensure_future(bench.controller.create_topic(CreateTopicRequest(topic="t")))
        await asyncio.sleep(0)
        beating = asyncio.ensure_future(bench.beat(1, broker.broker_epoch))
        await asyncio.sleep(0)
        checking = asyncio.ensure_future(bench.controller._check_sessions())
        await asyncio.sleep(0)
        bench.quorum.hold.set()
        await asyncio.gather(creating, beating, checking)
        assert not bench.controller.image.brokers[1].fenced
