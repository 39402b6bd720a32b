"""Transactions in one replica: admission, the last stable offset, and the state of followers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from replica_support import Solo
from replication_support import World

from raftlog.errors import (
    DamagedDataError,
    ErrorCode,
    FencedError,
    InvalidRequestError,
    RaftlogError,
    StaleRouteError,
    StorageError,
)
from raftlog.partition.replica import AppendResult, Replica
from raftlog.record import AbortedBatches, NewRecord, build_batch, read_records
from raftlog.runtime import SystemClock
from raftlog.wire.transactions import TransactionMarker


class Coordinator:
    """Says yes, or what it was told to say."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.refusal: RaftlogError | None = None

    async def __call__(self, producer_id: int, producer_epoch: int) -> None:
        self.asked.append((producer_id, producer_epoch))
        await asyncio.sleep(0)
        if self.refusal is not None:
            raise self.refusal


@pytest.fixture
async def solo(tmp_path: Path):
    made = Solo(tmp_path, isr=(1,), min_insync_replicas=1, flush="os")
    yield made
    await made.close()


async def send(
    solo: Solo,
    admit: Coordinator | None,
    producer: int = 7,
    *,
    epoch: int = 0,
    sequence: int = 0,
    acks: int = -1,
    transactional_id: str = "payer",
) -> AppendResult:
    built = build_batch(
        [NewRecord(f"{producer}.{epoch}.{sequence}".encode(), timestamp=1)],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return await solo.replica.append(
        built,
        acks=acks,  # type: ignore[arg-type]
        timeout_ms=1_000,
        admit=admit,
        transactional_id=transactional_id,
    )


async def end(
    solo: Solo, producer: int = 7, *, epoch: int = 1, committed: bool = True, coordinator: int = 0
) -> AppendResult:
    marker = TransactionMarker(
        producer_id=producer, producer_epoch=epoch, coordinator_epoch=coordinator, committed=committed
    )
    return await solo.replica.append_marker(marker, timeout_ms=1_000)


def committed(solo: Solo, *, any_replica: bool = False) -> list[str]:
    read = solo.replica.read(0, 1 << 20, isolation="read_committed", any_replica=any_replica)
    records = read_records(read.data, topic="t", partition=0, aborted=AbortedBatches(read.aborted))
    return [(record.value or b"").decode() for record in records]


async def test_the_coordinator_is_asked_once_for_each_transaction(solo: Solo):
    admit = Coordinator()
    await send(solo, admit)
    await send(solo, admit, sequence=1)
    assert (await send(solo, admit, sequence=1)).duplicate
    await end(solo)
    await send(solo, admit, epoch=1)

    assert admit.asked == [(7, 0), (7, 1)]


async def test_a_batch_under_another_transactional_id_is_not_of_the_open_transaction(solo: Solo):
    """Rights are those of the transactional id, so a producer's stolen id must be of no use without it."""
    admit, thief = Coordinator(), Coordinator()
    await send(solo, admit)
    thief.refusal = InvalidRequestError("of another id", code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match="of another id"):
            await send(solo, thief, sequence=1, transactional_id="own")
    with pytest.raises(InvalidRequestError, match="needs the transactional_id"):
        await send(solo, None, sequence=1, transactional_id="")
    await send(solo, admit, sequence=1)

    assert (admit.asked, thief.asked) == ([(7, 0)], [(7, 0)] * 2)
    assert solo.replica.log.log_end_offset == 2


async def test_a_forgotten_transactional_id_is_asked_for_again(solo: Solo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("raftlog.partition.admission.MAX_ADMITTED", 1)
    admit = Coordinator()
    await send(solo, admit, 7)
    await send(solo, admit, 8)
    await send(solo, admit, 7, sequence=1)

    assert admit.asked == [(7, 0), (8, 0), (7, 0)]
    assert solo.replica.log.log_end_offset == 3


async def test_nothing_is_appended_that_the_coordinator_does_not_know(solo: Solo):
    admit = Coordinator()
    admit.refusal = FencedError("replaced", code=ErrorCode.INVALID_PRODUCER_EPOCH)
    with pytest.raises(FencedError):
        await send(solo, admit)
    with pytest.raises(InvalidRequestError, match="needs the transactional_id") as nameless:
        await send(solo, None)
    with pytest.raises(InvalidRequestError, match="expected acks=all") as hasty:
        await send(solo, admit, acks=1)

    assert (nameless.value.code, hasty.value.code) == (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_REQUIRED_ACKS)
    assert solo.replica.log.log_end_offset == 0


async def test_a_marker_that_comes_while_the_coordinator_is_asked_fences_the_batch(solo: Solo):
    """Else a batch would be left hanging: appended after the end of the transaction that it is of (KIP-890)."""

    async def slow(producer_id: int, producer_epoch: int) -> None:
        await end(solo, epoch=1, committed=False)

    with pytest.raises(FencedError) as late:
        await send(solo, slow)  # type: ignore[arg-type]

    assert late.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert solo.replica.last_stable_offset == solo.replica.log.log_end_offset == 1


async def test_committed_records_are_read_up_to_the_first_undecided_transaction(solo: Solo):
    admit = Coordinator()
    await send(solo, admit, 7)
    await send(solo, admit, 8)
    await solo.append("plain")
    assert (committed(solo), solo.replica.last_stable_offset) == ([], 0)

    await end(solo, 7, committed=False)
    assert (committed(solo), solo.replica.last_stable_offset) == ([], 1)
    assert (await end(solo, 7, committed=False)).duplicate
    await end(solo, 8)

    assert committed(solo) == ["8.0.0", "plain"]
    read = solo.replica.read(2, 1 << 20, isolation="read_committed")
    assert [(a.producer_id, a.first_offset, a.last_offset) for a in read.aborted] == [(7, 0, 3)]
    assert solo.replica.read(0, 1 << 20).aborted == ()
    assert solo.replica.log.log_end_offset == 5


async def test_a_marker_counts_once_it_is_replicated(tmp_path: Path):
    solo = Solo(tmp_path, isr=(1, 2), flush="os")
    admit = Coordinator()
    sending = asyncio.create_task(send(solo, admit))
    while solo.replica.log.log_end_offset < 1:
        await asyncio.sleep(0)
    solo.follow(2)
    await sending
    ending = asyncio.create_task(end(solo))
    while solo.replica.log.log_end_offset < 2:
        await asyncio.sleep(0)
    assert (solo.replica.last_stable_offset, ending.done()) == (0, False)
    solo.follow(2)
    await ending
    assert (solo.replica.last_stable_offset, committed(solo)) == (2, ["7.0.0"])
    await solo.close()


async def test_a_follower_derives_the_same_and_goes_back_when_it_is_cut(tmp_path: Path, solo: Solo):
    admit = Coordinator()
    (tmp_path / "other").mkdir()
    other = Solo(tmp_path / "other", leader=2, flush="os")
    await send(solo, admit, 7)
    await send(solo, admit, 8)
    await end(solo, 7, committed=False)
    await end(solo, 8)
    log = solo.replica.log

    other.replica.append_fetched(log.read(0, 1 << 20, limit_offset=log.log_end_offset))
    other.replica.update_marks(4, log_start_offset=0, replicated_offset=0)

    assert committed(other, any_replica=True) == ["8.0.0"]
    assert other.replica.producers.to_plain()["producers"] == solo.replica.producers.to_plain()["producers"]
    other.replica.truncate_to(3)
    assert (other.replica.last_stable_offset, committed(other, any_replica=True)) == (1, [])
    await other.close()


async def test_a_coordinator_that_was_replaced_ends_nothing(solo: Solo):
    admit = Coordinator()
    await send(solo, admit)
    await end(solo, coordinator=5)
    await send(solo, admit, epoch=1)

    with pytest.raises(FencedError) as fenced:
        await end(solo, epoch=2, coordinator=4)

    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert solo.replica.last_stable_offset == 2


async def test_a_follower_that_starts_over_forgets_the_open_transactions_of_its_old_log(
    solo: Solo, monkeypatch: pytest.MonkeyPatch
):
    """If its files could not be read then, a transaction of the old log held the last stable offset for ever."""
    await send(solo, Coordinator())
    solo.change(leader=2, leader_epoch=1, isr=(1, 2))
    assert len(solo.replica.producers) == 1

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("cannot read the snapshots of producers")

    monkeypatch.setattr("raftlog.partition.follower_replica.recover_producers", refuse)
    solo.replica.start_over_at(9)
    assert len(solo.replica.producers) == 0
    assert solo.replica.last_stable_offset == 9


async def aborted_and_damaged(world: World) -> Replica:
    """Return a leader that has to rebuild its index of aborted transactions from a log whose last batch is damaged."""
    replica = world.brokers[1].replica
    record = NewRecord(b"a", timestamp=SystemClock().wall_us())  # As the marker: else it begins another segment.
    built = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    await replica.append(built, acks=-1, timeout_ms=5_000, admit=Coordinator(), transactional_id="payer")
    marker = TransactionMarker(producer_id=7, producer_epoch=1, coordinator_epoch=0, committed=False)
    await replica.append_marker(marker, timeout_ms=5_000)
    await world.produce("last")
    await world.until(lambda: all(broker.replica.log.log_end_offset == 3 for broker in world.brokers.values()))
    (segment,) = replica.log.segments
    segment.save_index()
    for _ in range(2):
        segment.release_if_idle()
    segment.path.with_suffix(".txnindex").unlink()
    ((position, _),) = [found for found in segment.headers() if found[1].base_offset == 2]
    for _ in range(2):
        segment.release_if_idle()
    content = bytearray(segment.path.read_bytes())
    content[position + 8] ^= 1
    segment.path.write_bytes(content)
    return replica


async def test_damage_that_an_index_of_aborted_transactions_meets_is_repaired(tmp_path: Path):
    """No repair began until a read met that batch, so intact records could not be read for up to a week."""
    async with World(tmp_path) as world:
        replica = await aborted_and_damaged(world)
        with pytest.raises(StaleRouteError, match="being repaired"):
            replica.read(0, 1, isolation="read_committed")
        assert replica.damage is not None
        await world.until(lambda: replica.damage is None)
        (aborted,) = replica.read(0, 1, isolation="read_committed").aborted
        assert (aborted.producer_id, aborted.first_offset) == (7, 0)
        assert world.damage_reports == []


async def test_damage_that_compaction_meets_in_such_an_index_is_noted(tmp_path: Path):
    async with World(tmp_path) as world:
        replica = await aborted_and_damaged(world)
        with pytest.raises(DamagedDataError) as caught:
            replica.log.aborted_transactions(0, 3)
        world.brokers[1].manager.cleaner._give_up(replica, caught.value)
        await world.until(lambda: world.brokers[1].manager.repairs.repaired_batches == 1)
