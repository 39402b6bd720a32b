"""A replica that is missing is not in sync: neither while the cluster runs, nor in its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.checker import check
from chaos.cluster import behind
from chaos.history import History, Read, Send
from chaos.replica_logs import read_replicas
from raftlog.wire.metadata import PartitionInfo, TopicInfo


@pytest.mark.parametrize(
    ("replicas", "isr", "complete"),
    [((1, 2, 3), (3, 1, 2), True), ((1, 2, 3), (1, 2), False), ((1, 2), (1, 2), False), ((1,), (1,), False)],
)
def test_in_sync_means_every_replica_that_the_topic_shall_have(
    replicas: tuple[int, ...], isr: tuple[int, ...], complete: bool
):
    part = PartitionInfo(partition=0, leader=1, leader_epoch=1, replicas=replicas, isr=isr)
    info = TopicInfo(topic="t", topic_id="id", partitions=(part,))

    assert (behind(info, 3) == []) is complete


def test_a_replica_in_sync_without_a_log_lacks_what_was_acknowledged(tmp_path: Path):
    (tmp_path / "partitions").mkdir()
    sent = Send(process="p", partition=0, value="a", invoked_ns=0, completed_ns=1, outcome="ok", offset=0)
    read = Read(process="final", partition=0, offset=0, value="a", completed_ns=2)
    missing = list(read_replicas({"broker-1": tmp_path}, "t", {0: {"broker-1"}, 1: {"broker-2"}}))

    assert [(log.broker, log.partition, log.in_sync) for log in missing] == [("broker-1", 0, True)]
    assert "not on every replica" in check(History(sends=[sent], final_reads=[read], replicas=missing)).kinds
    assert list(read_replicas({"broker-1": tmp_path}, "t", {0: {"broker-2"}})) == []
