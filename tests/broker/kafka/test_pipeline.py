"""The order of a connection's requests."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.broker.kafka.pipeline import Pipeline


@dataclass(eq=False)
class Request:
    number: int
    overlaps: bool = False
    held_bytes: int = 0


def test_a_request_begins_when_all_before_it_are_answered() -> None:
    pipeline = Pipeline[Request](8, ahead_bytes=100)
    fetch, heartbeat = Request(0), Request(1)
    pipeline.add(fetch)
    pipeline.add(heartbeat)
    assert pipeline.next is fetch
    pipeline.begin()
    assert pipeline.next is None
    pipeline.answered()
    assert pipeline.next is heartbeat
    assert pipeline.first is None


def test_produce_requests_overlap_and_another_request_waits_for_them() -> None:
    pipeline = Pipeline[Request](8, ahead_bytes=100)
    for number, overlaps in enumerate([True, True, False, True]):
        pipeline.add(Request(number, overlaps))
    begun = []
    while pipeline.next is not None:
        begun.append(pipeline.begin().number)
    assert begun == [0, 1]
    pipeline.answered()
    assert pipeline.next is None
    pipeline.answered()
    assert pipeline.begin().number == 2
    assert pipeline.next is None, "a produce request does not pass another request"


def test_a_full_pipeline_takes_no_more() -> None:
    pipeline = Pipeline[Request](2, ahead_bytes=100)
    pipeline.add(Request(0))
    assert not pipeline.is_full
    pipeline.begin()
    pipeline.add(Request(1))
    assert pipeline.is_full
    assert [one.number for one in pipeline.drop()] == [0, 1]
    assert not pipeline


def test_few_bytes_are_read_ahead_while_a_request_does_not_overlap() -> None:
    pipeline = Pipeline[Request](8, ahead_bytes=100)
    pipeline.add(Request(0, overlaps=True, held_bytes=1_000))
    pipeline.begin()
    pipeline.add(Request(1, overlaps=True, held_bytes=1_000))
    assert pipeline.ahead(5_000) is None, "produce requests are read ahead as far as there is space"
    pipeline.begin()
    pipeline.add(Request(2, held_bytes=70))
    assert (pipeline.ahead(0), pipeline.ahead(10), pipeline.ahead(31)) == (30, 20, 0)
    pipeline.answered()
    pipeline.answered()
    pipeline.begin()
    assert pipeline.ahead(10) == 90, "the request that has begun is not ahead of anything"
    pipeline.add(Request(3, overlaps=True, held_bytes=1_000))
    assert pipeline.ahead(0) == 0
    pipeline.answered()
    assert pipeline.ahead(0) is None
    pipeline.begin()
    pipeline.add(Request(4, held_bytes=50))
    assert pipeline.ahead(0) == 50
    assert [one.number for one in pipeline.drop_waiting()] == [4]
    assert pipeline.ahead(0) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=40))
def test_whatever_arrives_is_begun_and_answered_in_order(arrivals: list[tuple[bool, int]]) -> None:
    pipeline, begun, answered = Pipeline[Request](5, ahead_bytes=100), [], []
    for number, (overlaps, answers) in enumerate(arrivals):
        while pipeline.is_full:
            answered.append(pipeline.first)
            pipeline.answered()
            while pipeline.next is not None:
                begun.append(pipeline.begin())
        pipeline.add(Request(number, overlaps))
        while pipeline.next is not None:
            begun.append(pipeline.begin())
        assert pipeline.first is not None
        for _ in range(min(answers, len(pipeline))):
            answered.append(pipeline.first)
            pipeline.answered()
            while pipeline.next is not None:
                begun.append(pipeline.begin())
    assert [one.number for one in begun] == list(range(len(begun)))
    assert [one.number for one in answered if one] == list(range(len(answered)))
