"""What a broker answers for a partition whose log it cannot open: clients wait, unless waiting changes nothing."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from replica_support import Solo

from raftlog.errors import DamagedDataError, DiskFullError, ErrorCode, StaleRouteError, StorageError
from raftlog.model import PartitionAssignment, PartitionState, TopicIdPartition
from raftlog.partition.repair_manager import RepairManager
from raftlog.partition.storage.log import PartitionLog

KEY = TopicIdPartition("i" * 32, 0)


class Repairs(set[TopicIdPartition]):
    """Repairs that are under way."""

    def __init__(self, *running: TopicIdPartition, lost: bool) -> None:
        super().__init__(running)
        self.lost = {KEY: (7,)} if lost else {}


def answer(error: StorageError, *, isr: tuple[int, ...], repairing: bool = False, lost: bool = False) -> Exception:
    repairs = Repairs(*[KEY] * repairing, lost=lost)
    manager = RepairManager(
        repairs, Mock(), Mock(broker_id=1), find=Mock(), closed=Mock(), reopen=Mock(), on_disk_failure=Mock()
    )
    state = PartitionState(replicas=(1, 2), isr=isr, leader=1, leader_epoch=0, partition_epoch=0)
    return manager.error_for(PartitionAssignment(topic="t", topic_id=KEY.topic_id, partition=0, state=state), error)


@pytest.mark.parametrize("isr", [(1,), (1, 2)])
@pytest.mark.parametrize(
    ("error", "repairing", "why"),
    [
        (DiskFullError("no room"), False, "t-0 is offline until there is room: no room"),
        (StorageError("EIO"), False, "t-0 is offline on broker 1: its disk failed: EIO"),
        (DamagedDataError("a wrong checksum"), True, "t-0 is being repaired from other replicas: a wrong checksum"),
    ],
)
def test_a_log_that_may_be_opened_later_is_waited_for(
    error: StorageError, why: str, isr: tuple[int, ...], *, repairing: bool
):
    answered = answer(error, isr=isr, repairing=repairing)
    assert isinstance(answered, StaleRouteError)
    assert (answered.message, answered.code) == (why, ErrorCode.LEADER_NOT_AVAILABLE)


async def test_an_index_of_aborted_transactions_that_cannot_be_read_now_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = Solo(tmp_path, isr=(1,), min_insync_replicas=1)
    await solo.append("x")
    monkeypatch.setattr(PartitionLog, "has_aborted", True)
    monkeypatch.setattr(PartitionLog, "aborted_transactions", Mock(side_effect=StorageError("too many open files")))
    with pytest.raises(StaleRouteError, match="t-0: too many open files; send the request again"):
        solo.replica.read(0, 1_000, isolation="read_committed")
    assert solo.replica.damage is None
    await solo.close()


@pytest.mark.parametrize(("repairing", "lost"), [(False, False), (True, True)])
def test_a_log_that_cannot_be_repaired_is_waited_for_if_another_replica_is_in_sync(*, repairing: bool, lost: bool):
    error = DamagedDataError("a wrong checksum")
    elsewhere = answer(error, isr=(1, 2), repairing=repairing, lost=lost)
    assert isinstance(elsewhere, StaleRouteError), "the controller elects that replica"
    assert "t-0 is offline on broker 1: its log is damaged: a wrong checksum" in elsewhere.message
    assert answer(error, isr=(1,), repairing=repairing, lost=lost) is error, "an operator has to decide"
