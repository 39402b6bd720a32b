"""A shard of the transaction coordinator without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raftlog.coordinator.runtime import Decision, LogRecord, Now
from raftlog.coordinator.transaction.core import TransactionCoordinator, TransactionSettings
from raftlog.coordinator.transaction.sets import abort_left, end_set
from raftlog.coordinator.transaction.state import Transactions
from raftlog.coordinator.transaction.transitions import NeedsProducerIdError
from raftlog.errors import RaftlogError
from raftlog.wire.transactions import (
    EndSetBody,
    EndTransactionBody,
    JoinTransactionRequest,
    SetMember,
    TransactionPartition,
)

SETTINGS = TransactionSettings(max_timeout_ms=10_000, id_expiration_ms=100_000)


@dataclass
class Shard:
    """A coordinator and its log, in memory."""

    coordinator: TransactionCoordinator = field(default_factory=lambda: TransactionCoordinator(SETTINGS))
    state: Transactions = field(default_factory=Transactions)
    log: list[LogRecord] = field(default_factory=list)
    now_ms: int = 0
    ahead_ms: int = 0
    """How far this broker's wall clock is ahead."""
    next_id: int = 100

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms + self.ahead_ms)

    def _do(self, decide: Any) -> Any:
        try:
            try:
                decision: Decision[Any] = decide(None)
            except NeedsProducerIdError:
                self.next_id += 1
                decision = decide(self.next_id)
        except RaftlogError as error:
            return error.code.value
        self.write(decision.records)
        return decision.response

    def write(self, records: Any) -> None:
        for record in records:
            self.log.append(record)
            self.coordinator.replay(self.state, record)

    def init(self, name: str = "t", timeout_ms: int = 1_000) -> Any:
        made = self._do(lambda fresh: self.coordinator.init(self.state, self.now, name, timeout_ms, fresh))
        return (made.producer_id, made.producer_epoch) if hasattr(made, "producer_id") else made

    def join(self, who: tuple[int, int], *partitions: int, name: str = "t") -> Any:
        asked = JoinTransactionRequest(
            transactional_id=name,
            producer_id=who[0],
            producer_epoch=who[1],
            partitions=tuple(TransactionPartition(topic="x", partition=p, topic_id="a") for p in partitions),
        )
        made = self._do(lambda _: self.coordinator.join(self.state, self.now, asked))
        return made if isinstance(made, str) else "joined"

    def end(self, who: tuple[int, int], *, committed: bool = True, name: str = "t") -> Any:
        asked = EndTransactionBody(producer_id=who[0], producer_epoch=who[1], committed=committed)
        made = self._do(lambda fresh: self.coordinator.end(self.state, self.now, name, asked, fresh))
        return (made.producer_id, made.producer_epoch) if hasattr(made, "producer_id") else made

    def end_set(
        self,
        *names: str,
        run: str = "r",
        number: int = 0,
        committed: bool = True,
        passing: bool = False,
        stale: Mapping[str, tuple[int, int]] = {},
    ) -> Any:
        """End the set `s` with these members, as they are now or as in `stale`; return the last committed number."""
        members = []
        for name in names:
            known = self.state.by_id.get(name)
            who = stale.get(name) or ((known.producer_id, known.producer_epoch) if known else (-1, -1))
            members.append(SetMember(transactional_id=name, producer_id=who[0], producer_epoch=who[1]))
        asked = EndSetBody(run=run, number=number, members=tuple(members), committed=committed, passing=passing)
        made = self._do(lambda _: end_set(self.state, self.now, "s", asked))
        if isinstance(made, str):
            return made
        left = made.left
        while left:
            left = self._do(lambda _, left=left: abort_left(self.state, self.now, left))
        return made.info.run, made.info.number

    def complete(self, name: str = "t") -> None:
        known = self.state.by_id[name]
        self._do(lambda _: self.coordinator.complete(self.state, self.now, known))

    def tick(self, passed_ms: int) -> int:
        self.now_ms += passed_ms
        records = self.coordinator.on_tick(self.state, self.now)
        self.write(records)
        return len(records)

    def fail_over(self) -> None:
        """Have another broker load the log after compaction."""
        newest = {self.coordinator.codec.encode(record)[0]: record for record in self.log}
        self.state = Transactions()
        for record in newest.values():
            key, value = self.coordinator.codec.encode(record)
            read = self.coordinator.codec.decode(key, value)
            assert read is not None
            self.coordinator.replay(self.state, read)

    def phase(self, name: str = "t") -> str:
        return self.state.by_id[name].phase
