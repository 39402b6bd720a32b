"""A scrub ends although brokers are down: it names what they have not scrubbed, and repairs that wait for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from click.testing import CliRunner

from raftlog.cli import scrubbing, storage
from raftlog.cli.main import cli
from raftlog.cli.scrubbing import Scrubbed, scrub_brokers
from raftlog.errors import UnknownOutcomeError, UnreachableError
from raftlog.wire.admin import LogDir, LogDirsResponse, ScrubResponse, StoredReplica
from raftlog.wire.metadata import BrokerInfo, PartitionInfo, TopicInfo

NOT_SCRUBBED = "not scrubbed: the broker does not answer"


class Cluster:
    """Three brokers, each with a replica of t-0. `fenced` ones are known to be down; `dies` is not yet."""

    def __init__(self, *, fenced: Sequence[int] = (), dies: int = 0, damaged: int = 0, looks: int = 2) -> None:
        self.fenced, self.dies, self.damaged, self.looks = fenced, dies, damaged, looks
        self.asked: list[int] = []

    async def brokers(self) -> list[BrokerInfo]:
        return [BrokerInfo(broker_id=each, url="http://x:1", fenced=each in self.fenced) for each in (1, 2, 3)]

    async def list_topics(self) -> list[TopicInfo]:
        partition = PartitionInfo(partition=0, leader=1, leader_epoch=0, replicas=(1, 2, 3), isr=(1, 2))
        return [TopicInfo(topic=name, topic_id="a" * 32, partitions=(partition,)) for name in ("t", "u")]

    async def scrub(self, brokers: Sequence[int], topics: Sequence[str]) -> list[ScrubResponse]:
        self.asked += brokers
        return [self._progress(brokers[0], 1, 0)]

    async def scrub_progress(self, brokers: Sequence[int]) -> list[ScrubResponse]:
        self._require_up(brokers[0], UnreachableError("refused"))
        self.looks -= 1
        return [self._progress(brokers[0], int(self.looks > 0), int(brokers[0] == self.damaged))]

    async def log_dirs(self, brokers: Sequence[int]) -> list[LogDirsResponse]:
        self._require_up(brokers[0], UnknownOutcomeError("no answer"))
        damage = "the batch at 3 is damaged" if brokers[0] == self.damaged else ""
        stored = StoredReplica(
            topic="t", partition=0, leader=False, size_bytes=1, log_start_offset=0, log_end_offset=9, damage=damage
        )
        folder = LogDir(path="/d", total_bytes=-1, usable_bytes=-1, replicas=(stored,))
        return [LogDirsResponse(broker_id=brokers[0], log_dirs=(folder,))]

    def _require_up(self, broker: int, error: Exception) -> None:
        if broker == self.dies or broker in self.fenced:
            raise error

    @staticmethod
    def _progress(broker: int, left: int, found: int) -> ScrubResponse:
        return ScrubResponse(
            broker_id=broker,
            replicas_left=left,
            bytes_left=left,
            checked_bytes=0,
            damage_found=found,
            longest_unchecked_ms=0,
        )


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubbing, "_LOOK_S", 0)
    monkeypatch.setattr(scrubbing, "_STALLED_S", 0)


async def scrub(cluster: Cluster, brokers: Sequence[int] | None = None, *topics: str, wait: bool = True) -> Scrubbed:
    return await scrub_brokers(cast("Any", cluster), brokers, topics, wait=wait)


@pytest.mark.parametrize("cluster", [Cluster(fenced=(3,)), Cluster(dies=3)], ids=["fenced", "dies"])
async def test_replicas_of_a_broker_that_is_down_are_named(cluster: Cluster):
    done = await scrub(cluster)
    assert done.silent == [3]
    assert [tuple(row.values()) for row in done.unscrubbed] == [(3, "t", 0, NOT_SCRUBBED), (3, "u", 0, NOT_SCRUBBED)]
    assert [each.broker_id for each in done.progress] == [1, 2]
    assert done.damaged(()) == []


async def test_only_the_topics_that_were_wanted_are_named():
    done = await scrub(Cluster(dies=3), [2, 3], "u")
    assert [tuple(row.values()) for row in done.unscrubbed] == [(3, "u", 0, NOT_SCRUBBED)]


async def test_nothing_is_named_while_all_answer():
    done = await scrub(Cluster())
    assert (done.silent, done.unscrubbed, len(done.progress)) == ([], [], 3)


async def test_a_repair_that_may_need_a_broker_that_is_down_is_not_waited_for():
    done = await scrub(Cluster(fenced=(3,), damaged=2))
    assert [tuple(row.values()) for row in done.damaged(())] == [(2, "t", 0, "the batch at 3 is damaged")]
    assert done.silent == [3]


async def test_a_repair_with_all_brokers_up_is_waited_for():
    cluster = Cluster(damaged=2)
    real = cluster.brokers
    looks = 0

    async def brokers() -> list[BrokerInfo]:
        """The repair ends after this was called three times."""
        nonlocal looks
        looks += 1
        cluster.damaged = 0 if looks > 3 else cluster.damaged
        return await real()

    cluster.brokers = brokers  # type: ignore[method-assign]
    done = await scrub(cluster)
    assert (done.damaged(()), looks) == ([], 4)


@pytest.mark.parametrize("options", [(), ("--json",), ("--no-wait",), ("--json", "--no-wait")])
def test_the_command_says_so_and_fails(options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    @asynccontextmanager
    async def admin(_: object) -> Any:
        yield Cluster(fenced=(3,))

    monkeypatch.setattr(storage, "admin", admin)
    said = CliRunner().invoke(cli, ["storage", "scrub", "--topic", "t", "--bootstrap", "x:1", *options])
    assert said.exit_code == 1, said.output
    if "--json" in options:
        found = json.loads(said.stdout)
        assert (found["ok"], found["damaged"], found["silent"]) == (False, [], [3])
        named = [{"broker": 3, "topic": "t", "partition": 0, "what": NOT_SCRUBBED}]
        assert found["unscrubbed"] == ([] if "--no-wait" in options else named)
        return
    assert said.stderr == "broker 3 does not answer: it scrubs nothing\n"
    assert options or NOT_SCRUBBED in said.stdout
