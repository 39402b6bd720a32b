"""`delete_records` without an offset, while its leader fails: it deletes what was there when it was called."""

from __future__ import annotations

from typing import Any

import pytest

from raftlog import Admin
from raftlog.errors import OffsetOutOfRangeError, RaftlogError, StaleRouteError, UnknownOutcomeError
from raftlog.wire.data import DeleteRecordsBody, DeleteRecordsResponse, OffsetResponse
from raftlog.wire.metadata import BrokerInfo, ClientMetadata, PartitionInfo, TopicInfo

URL = "http://127.0.0.1:1"


class Cluster:
    """One broker. Its high watermark of t-0 changes by some offsets with each request to delete.

    Args:
        failures: what the first requests to delete fail with.
    """

    def __init__(self, *failures: RaftlogError, change: int = 10) -> None:
        self.end = 10
        self.change = change
        self.failures = list(failures)
        self.asked: list[int | str] = []
        """The offsets before which it was to delete."""

    async def call(self, cls: type, method: str, address: Any, path: str, *, message: Any = None, **_: Any) -> Any:
        if cls is ClientMetadata:
            partition = PartitionInfo(partition=0, leader=1, leader_epoch=1, replicas=(1,), isr=(1,))
            return ClientMetadata(
                cluster_id="c",
                metadata_offset=1,
                feature_level=1,
                brokers=(BrokerInfo(broker_id=1, url=URL),),
                topics=(TopicInfo(topic="t", topic_id="f" * 32, partitions=(partition,)),),
            )
        if cls is OffsetResponse:
            return OffsetResponse(topic="t", partition=0, offset=self.end, high_watermark=self.end)
        assert isinstance(message, DeleteRecordsBody)
        self.asked.append(message.before_offset)
        self.end += self.change
        if self.failures:
            raise self.failures.pop(0)
        return DeleteRecordsResponse(topic="t", partition=0, log_start_offset=3)

    async def deletion(self, before: int | None = None) -> int:
        admin = Admin(URL, timeout_ms=5_000)
        admin._connection.session.call = self.call  # type: ignore[method-assign,assignment]
        try:
            return await admin.delete_records("t", 0, before=before)
        finally:
            await admin.close()


@pytest.mark.parametrize("failure", [UnknownOutcomeError("no answer came"), StaleRouteError("not any more")])
async def test_records_that_are_acknowledged_after_the_call_are_kept_when_it_is_sent_again(failure: RaftlogError):
    cluster = Cluster(failure, failure)
    assert await cluster.deletion() == 3
    assert cluster.asked == [10, 10, 10]


@pytest.mark.parametrize(("change", "then"), [(10, 10), (-4, 6)])
async def test_a_new_leader_whose_high_watermark_was_lower_deletes_no_more_than_it_has(change: int, then: int):
    cluster = Cluster(OffsetOutOfRangeError("it is above the high watermark"), change=change)
    assert await cluster.deletion() == 3
    assert cluster.asked == [10, then]


async def test_an_offset_of_the_application_above_the_high_watermark_is_an_error():
    cluster = Cluster(OffsetOutOfRangeError("it is above the high watermark"))
    with pytest.raises(OffsetOutOfRangeError):
        await cluster.deletion(before=50)
    assert cluster.asked == [50]
