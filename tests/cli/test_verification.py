"""The check of numbered records: what is missing, doubled or out of order is found, and nothing else is."""

from __future__ import annotations

import random

import pytest

from raftlog.cli.verification import Checker, Produced, Source, decode_value, encode_value
from raftlog.errors import InvalidRequestError
from raftlog.record import Record
from raftlog.wire.codec import encode_json


def record(number: int, offset: int, *, producer: str = "p", partition: int = 0) -> Record:
    return Record("t", partition, offset, 0, None, encode_value(producer, number, 0), ())


def check(*numbers: int, checker: Checker | None = None) -> tuple[Checker, list[tuple[str, int, int]]]:
    """Read these numbers, at offsets from 0 on."""
    checker = checker or Checker()
    found = [violation for offset, number in enumerate(numbers) for violation in checker.read(record(number, offset))]
    return checker, [(violation.kind, violation.first, violation.last) for violation in found]


def line(event: str, number: int, *, partition: int = 0) -> bytes:
    return encode_json({"event": event, "producer": "p", "partition": partition, "number": number})


def test_values_are_read_back():
    assert decode_value(encode_value("a-b.c_d", 17, 0)) == ("a-b.c_d", 17)
    assert len(encode_value("p", 1, 100)) == 100
    assert decode_value(encode_value("p", 1, 100)) == ("p", 1)
    for foreign in (None, b"", b"p", b"p:", b"p:1", b"p:1:y", b"p q:1:", b":1:", b"p:-1:", b"p:" + b"1" * 30 + b":"):
        assert decode_value(foreign) is None


def test_nothing_is_wrong_with_each_number_once_and_in_order():
    checker, found = check(0, 1, 2, 3)
    assert found == []
    assert checker.records == 4
    assert not any(checker.violations.values())


@pytest.mark.parametrize(
    ("numbers", "found", "violations"),
    [
        ([0, 1, 4], [("missing", 2, 3)], {"missing": 2}),
        ([2, 3], [("missing", 0, 1)], {"missing": 2}),
        ([0, 1, 1, 2], [("duplicated", 1, 1)], {"duplicated": 1}),
        ([0, 2, 1, 3], [("missing", 1, 1), ("out_of_order", 1, 1)], {"out_of_order": 1}),
        ([0, 3, 2, 2], [("missing", 1, 2), ("out_of_order", 2, 2), ("duplicated", 2, 2)],
         {"missing": 1, "out_of_order": 1, "duplicated": 1}),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_counted(numbers: list[int], found: list, violations: dict[str, int]):
    checker, told = check(*numbers)
    assert told == found
    assert {kind: count for kind, count in checker.violations.items() if count} == violations


def test_every_disorder_of_a_sequence_is_found_and_nothing_is_missing_at_the_end():
    dice = random.Random(7)
    for _ in range(200):
        numbers = list(range(8))
        dice.shuffle(numbers)
        checker, _ = check(*numbers)
        assert checker.missing == 0
        assert checker.duplicated == 0
        assert (checker.out_of_order > 0) == (numbers != sorted(numbers))


def test_producers_and_partitions_count_for_themselves():
    checker = Checker()
    reads = [
        record(0, 0),
        record(0, 0, partition=1),
        record(0, 1, producer="q"),
        record(1, 2),
        record(1, 1, partition=1),
    ]
    assert [violation for each in reads for violation in checker.read(each)] == []


def test_offsets_only_grow():
    checker, _ = check(0, 1)
    (violation,) = checker.read(record(2, 1))
    assert violation.kind == "offset_backwards"
    assert checker.violations["offset_backwards"] == 1


def test_a_partition_that_is_taken_over_goes_on_anywhere():
    checker, _ = check(0, 2)
    checker.leave(0)
    assert [*checker.read(record(7, 9)), *checker.read(record(8, 10))] == []
    assert [v.kind for v in checker.read(record(11, 11))] == ["missing"]
    assert checker.missing == 1 + 2
    checker.leave(0)
    assert list(checker.read(record(0, 0))) == []
    assert checker.missing == 1 + 2


def test_a_log_that_begins_later_is_not_held_against_it():
    checker = Checker()
    assert list(checker.read(record(5, 3))) == []
    checker = Checker()
    checker.begin(0, complete=True)
    assert [(v.first, v.last) for v in checker.read(record(5, 3))] == [(0, 4)]


def test_foreign_records_are_counted():
    checker = Checker()
    assert list(checker.read(Record("t", 0, 0, 0, None, b"else", ()))) == []
    assert (checker.foreign, checker.records) == (1, 0)


def test_what_the_producer_said_counts():
    told = [line("acknowledged", 0), line("failed", 1), line("unknown", 2), line("unknown", 3), line("acknowledged", 4)]
    checker, found = check(0, 3, 4, checker=Checker(Produced.read(told)))
    assert found == []
    assert list(checker.unread()) == []
    checker, found = check(0, 1, 2, 3, 4, checker=Checker(Produced.read(told)))
    assert found == [("failed_but_read", 1, 1)]
    checker, found = check(0, checker=Checker(Produced.read([*told, line("acknowledged", 6, partition=2)])))
    assert found == []
    assert [(v.source, v.first, v.last) for v in checker.unread()] == [(Source("p", 0), 4, 4), (Source("p", 2), 0, 6)]


def test_lines_of_something_else_are_refused():
    assert Produced.read([b'{"event":"started"}', b'{"event":"summary"}']).last_acknowledged == {}
    for bad in (
        b"x",
        b"[]",
        b"3",
        b"{}",
        b'{"event":"failed"}',
        b'{"event":"failed","producer":"p","partition":[],"number":1}',
    ):
        with pytest.raises(InvalidRequestError, match="line 2"):
            Produced.read([b'{"event":"started"}', bad])
