"""Any history of one partition's batches in flight: nothing lost, nothing twice, nothing out of order.

The leader uses the broker's own check of sequences. Requests and answers between it and the producer are late, lost or
overtaken. The leader refuses requests, forgets idle producers, and finds batches too large.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.partition_queue import QUIET_MS
from raftlog.client.core.pending_batch import PendingBatch, ProducerIdentity, record_bytes
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    OverloadedError,
    RaftlogError,
    StaleRouteError,
    UnknownOutcomeError,
    UnreachableError,
)
from raftlog.model import MAX_PRODUCER_EPOCH, TopicPartition
from raftlog.partition.core.producers import ProducerStates
from raftlog.record import NewRecord
from raftlog.record.batch import BatchHeader

P0 = TopicPartition("t", 0)
RECORD = NewRecord(b"x" * 68)
DELIVERY_TIMEOUT_MS = 5_000
MOST_TOO_LARGE = 10
"""Each is refused by itself, and those behind it wait: with many, these would time out first."""
WHICH = st.integers(min_value=0, max_value=20)


@dataclass(slots=True, eq=False)
class Request:
    """One attempt, decoded from its bytes."""

    batch: PendingBatch[int]
    identity: ProducerIdentity
    sequence: int
    handles: list[int]


class Leader:
    """A partition's log, as far as sequences and sizes go."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.log: list[int] = []
        self.max_records = 100
        self.poison: set[int] = set()

    def append(self, request: Request) -> RaftlogError | None:
        """Append the request's records, recognise them as a repeat, or return the error."""
        if len(request.handles) > self.max_records or self.poison & set(request.handles):
            return InvalidRequestError("too large", code=ErrorCode.MESSAGE_TOO_LARGE)
        count, base, identity = len(request.handles), len(self.log), request.identity
        numbers = (identity.producer_id, request.sequence, identity.producer_epoch)
        crc = zlib.crc32(repr(request.handles).encode())
        header = BatchHeader(base, 72, 0, 0, 1, 0, 0, crc, count, *numbers, 0, 0, count - 1, 0)
        try:
            repeated = self.states.check(header)
        except RaftlogError as error:
            return error
        if repeated is None:
            self.states.on_appended(header, 0)
            self.log += request.handles
        return None

    def take_place(self, identity: ProducerIdentity, sequence: int, count: int) -> bool:
        """Append a foreign batch, with these ids and sequences."""
        numbers = (identity.producer_id, sequence, identity.producer_epoch)
        header = BatchHeader(0, 72, 0, 0, 1, 0, 0, 1, count, *numbers, 0, 0, count - 1, 0)
        try:
            appended = self.states.check(header) is None
        except RaftlogError:
            return False
        if appended:
            self.states.on_appended(header, 0)
        return appended


class Histories(RuleBasedStateMachine):
    @initialize(max_in_flight=st.integers(min_value=1, max_value=5), records_per_batch=st.sampled_from([1, 3]))
    def begin(self, max_in_flight: int, records_per_batch: int):
        self.max_in_flight = max_in_flight
        self.queue: Accumulator[int] = Accumulator(
            batch_bytes=records_per_batch * record_bytes(RECORD),
            linger_ms=0,
            max_in_flight=max_in_flight,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
        )
        self.producer = 7
        self.queue.begin(ProducerIdentity(self.producer))
        self.disturbed = False
        self.leader = Leader()
        self.now = self.added = 0
        self.requests: list[Request] = []
        self.late: list[Request] = []
        """The producer no longer waits for their answers."""
        self.answers: list[tuple[Request, RaftlogError | None]] = []
        self.acknowledged: set[int] = set()
        self.failed: dict[int, RaftlogError] = {}

    @rule(count=st.integers(min_value=1, max_value=12))
    def add(self, count: int):
        for _ in range(count):
            self.queue.add(P0, RECORD, self.added, self.now)
            self.added += 1

    @precondition(lambda self: self.requests or self.late)
    @rule(which=WHICH, epochs=st.sampled_from([0, 0, 1, 7, 32_767]), count=st.integers(min_value=1, max_value=3))
    def disturb(self, which: int, epochs: int, count: int):
        """A foreign client with the numbers of a request in flight sends first, or begins a later epoch."""
        sent = [*self.requests, *self.late][which % (len(self.requests) + len(self.late))]
        identity = replace(sent.identity, producer_epoch=min(sent.identity.producer_epoch + epochs, MAX_PRODUCER_EPOCH))
        taken = self.leader.take_place(identity, 0 if epochs else sent.sequence, count)
        self.disturbed = self.disturbed or taken

    @rule()
    def send(self):
        if self.queue.wants_identity:
            self.producer += 1
            self.queue.begin(ProducerIdentity(self.producer))
        if P0 not in self.queue.due(self.now):
            return
        taken, failed = self.queue.take(P0, "id", self.now)
        self.fail(failed)
        for batch in taken:
            assert batch.identity is not None
            self.requests.append(Request(batch, batch.identity, batch.sequence, list(batch.handles)))
        assert len(self.requests) + len(self.answers) <= self.max_in_flight

    @precondition(lambda self: self.requests)
    @rule(which=WHICH, answered=st.booleans())
    def arrive(self, which: int, answered: bool):
        request = self.requests.pop(which % len(self.requests))
        error = self.leader.append(request)
        self.answers.append((request, error if answered else UnknownOutcomeError("connection lost")))

    @precondition(lambda self: self.requests)
    @rule(which=WHICH)
    def time_out(self, which: int):
        request = self.requests.pop(which % len(self.requests))
        self.late.append(request)
        self.answers.append((request, UnknownOutcomeError("no answer in time")))

    @precondition(lambda self: self.late)
    @rule(which=WHICH)
    def arrive_late(self, which: int):
        self.leader.append(self.late.pop(which % len(self.late)))

    @precondition(lambda self: self.requests)
    @rule(which=WHICH, refusal=st.sampled_from([StaleRouteError, OverloadedError, UnreachableError]))
    def refuse(self, which: int, refusal: type[RaftlogError]):
        self.answers.append((self.requests.pop(which % len(self.requests)), refusal("not now")))

    @precondition(lambda self: self.answers)
    @rule(which=WHICH)
    def answer(self, which: int):
        request, error = self.answers.pop(which % len(self.answers))
        if error is None:
            self.acknowledged |= set(request.handles)
            self.fail(self.queue.on_acknowledged(P0, request.batch, self.now))
        else:
            self.fail(self.queue.on_refused(P0, request.batch, error, self.now, jitter=0.5))

    @rule(ms=st.sampled_from([1, 100, QUIET_MS, DELIVERY_TIMEOUT_MS]))
    def wait(self, ms: int):
        self.now += ms
        self.fail(self.queue.expire(self.now))

    @rule(max_records=st.sampled_from([1, 2, 100]))
    def limit(self, max_records: int):
        self.leader.max_records = max_records

    @precondition(lambda self: self.added and len(self.leader.poison) < MOST_TOO_LARGE)
    @rule()
    def add_one_that_is_too_large(self):
        self.leader.poison.add(self.added)
        self.add(1)

    @precondition(lambda self: not (self.requests or self.late or self.answers))
    @rule()
    def forget(self):
        """A leader forgets producers that have written nothing for much longer than a delivery may take."""
        self.now += 2 * DELIVERY_TIMEOUT_MS
        self.fail(self.queue.expire(self.now))
        self.leader.states = ProducerStates()

    @invariant()
    def the_log_has_each_record_once_and_in_order(self):
        if hasattr(self, "leader"):
            assert all(one < other for one, other in zip(self.leader.log, self.leader.log[1:], strict=False))

    def teardown(self):
        if not hasattr(self, "leader"):
            return
        self.leader.max_records = 100
        for _ in range(10_000):
            if self.queue.empty:
                break
            self.wait(100)
            self.send()
            while self.requests:
                self.arrive(0, answered=True)
            while self.answers:
                self.answer(0)
        while self.late:
            self.arrive_late(0)
        self.the_log_has_each_record_once_and_in_order()
        self.every_outcome_is_true()
        assert self.queue.size == 0

    def every_outcome_is_true(self):
        log = set(self.leader.log)
        unknown = {handle for handle, error in self.failed.items() if isinstance(error, UnknownOutcomeError)}
        assert self.acknowledged | set(self.failed) == set(range(self.added))
        assert not self.acknowledged & set(self.failed)
        assert self.acknowledged <= log
        assert not log & (set(self.failed) - unknown)

    def fail(self, failed: list[tuple[PendingBatch[int], RaftlogError]]):
        for batch, error in failed:
            assert not set(batch.handles) & (self.acknowledged | set(self.failed))
            if not self.disturbed:
                assert error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a place in the sequence was lost"
                assert "expected sequence" not in error.message, "a place in the sequence was lost"
            self.failed |= dict.fromkeys(batch.handles, error)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
