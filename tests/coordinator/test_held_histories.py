"""Any history of producers that keep their epoch: requests come late and twice, coordinators fail over.

The test has the logs of two partitions: what a leader would append, and the markers. A batch counts as committed if the
next marker of its number above it commits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from test_held_transactions import Held

NAMES = st.sampled_from("ab")
PARTITIONS = st.sampled_from((0, 1))
Number = tuple[int, int]


@dataclass
class Life:
    """One producer: its identity, its present transaction, and the batches that it sent within."""

    who: Number | None = None
    transaction: int = 0
    added: set[int] = field(default_factory=set)
    is_fenced: bool = False


@dataclass(frozen=True)
class Batch:
    life: str
    transaction: int
    number: Number


@dataclass(frozen=True)
class Marker:
    number: Number
    """Of the transaction that it ends."""
    committed: bool


FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "TRANSACTION_ABORTABLE"}


class HeldHistories(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.shard = Held()
        self.lives = {"a": Life(), "b": Life()}
        self.logs: dict[int, list[Batch | Marker]] = {0: [], 1: []}
        self.late: list[tuple[Any, ...]] = []
        """Requests that the network still has: they may arrive at any time, any number of times."""
        self.ends: dict[tuple[str, int], bool] = {}
        """What answers said of transactions: whether they are committed."""
        self.newest = ""
        """The life that got an identity last."""

    @rule(name=NAMES, again=st.booleans(), lost=st.booleans())
    def init(self, name: str, again: bool, lost: bool):
        """Begin, or begin again with the identity that the producer has."""
        life = self.lives[name]
        if life.who is None or life.is_fenced or not again:
            life = self.lives[name] = Life(None, life.transaction + 1)  # Its old identity is not used any more.
        made = self.shard.init() if life.who is None else self.shard.init_as(life.who)
        if life.who is not None and made in FENCED:
            assert self.newest != name or self.timed_out, "its own repeat has fenced it"
            life.is_fenced = True
        if isinstance(made, tuple) and not lost:
            if self.newest != name:
                self.timed_out = False
            self.lives[name] = Life(made, life.transaction + 1)
            self.newest = name
        elif life.who is None:
            self.newest = ""  # Whatever the answer, the last identity may be fenced.
        elif isinstance(made, tuple):
            self.newest = name

    timed_out = False

    @rule(name=NAMES, partition=PARTITIONS, late=st.booleans())
    def add(self, name: str, partition: int, late: bool):
        life = self.lives[name]
        if life.who is None or life.is_fenced:
            return
        if late:
            self.late.append(("add", life.who, partition))
        elif self.shard.join(life.who, partition) == "joined":
            life.added.add(partition)

    @rule(name=NAMES, partition=PARTITIONS, late=st.booleans())
    def produce(self, name: str, partition: int, late: bool):
        life = self.lives[name]
        if life.who is None or partition not in life.added:
            return
        if late:
            self.late.append(("batch", life.who, partition, name, life.transaction))
        else:
            self.append(life.who, partition, name, life.transaction)

    def append(self, who: Number, partition: int, name: str, transaction: int):
        """Append as a leader does: with the number that the coordinator has verified, unless a marker has fenced it."""
        number = self.shard.number(who, partition)
        log = self.logs[partition]
        if isinstance(number, tuple) and not any(isinstance(one, Marker) and number <= one.number for one in log):
            log.append(Batch(name, transaction, number))

    @rule(name=NAMES, committed=st.booleans(), lost=st.booleans())
    def end(self, name: str, committed: bool, lost: bool):
        life = self.lives[name]
        if life.who is None or life.is_fenced or not life.added:
            return
        answer = self.shard.hold(life.who, committed=committed)
        if answer in FENCED:
            life.is_fenced = True
        elif answer == life.who and not lost:
            self.ends[name, life.transaction] = committed
            life.transaction += 1
            life.added = set()

    @rule(count=st.integers(0, 3))
    def deliver_late_requests(self, count: int):
        """Some arrive now; they may arrive again."""
        for kind, who, partition, *more in self.late[:count]:
            if kind == "add":
                self.shard.join(who, partition)
            else:
                self.append(who, partition, *more)

    @rule()
    def write_markers(self):
        for current in list(self.shard.state.by_id.values()):
            if current.phase in ("committing", "aborting"):
                number = (current.marker_id, current.marker_epoch - 1)
                for part in current.partitions:
                    self.logs[part.partition].append(Marker(number, current.phase == "committing"))
        if self.shard.state.ending:
            self.shard.complete()

    @rule(ms=st.sampled_from((300, 1_000)))
    def time_passes(self, ms: int):
        self.timed_out = bool(self.shard.tick(ms)) or self.timed_out

    @rule()
    def fail_over(self):
        self.shard.fail_over()

    def committed(self) -> set[tuple[str, int, int, int]]:
        """Return the batches that readers of committed records see: life, transaction, partition and place."""
        found = set()
        for partition, log in self.logs.items():
            for place, batch in enumerate(log):
                if isinstance(batch, Batch):
                    ends = [one for one in log[place:] if isinstance(one, Marker) and one.number == batch.number]
                    if ends and ends[0].committed:
                        found.add((batch.life, batch.transaction, partition, place))
        return found

    @invariant()
    def no_batch_of_an_aborted_transaction_is_committed(self):
        for name, transaction, partition, place in self.committed():
            assert self.ends.get((name, transaction), True), f"{name} {transaction} at {partition}-{place}"

    @invariant()
    def no_marker_ends_another_number(self):
        for log in self.logs.values():
            decided: dict[Number, bool] = {}
            for one in log:
                if isinstance(one, Marker):
                    assert decided.setdefault(one.number, one.committed) == one.committed


TestHeldHistories = HeldHistories.TestCase
TestHeldHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
