"""Rejoining: how a voter without a journal (a new or replaced disk) becomes a full voter again.

A voter that has lost its disk has forgotten entries that it acknowledged and votes that it cast. It could help to elect
a leader without those entries, or vote twice. So it rejoins in steps, its *standing*:

- *blank*: it asks every other voter, not only a majority, for its term and whether it has a log. It does nothing else.
- If no voter has a log, this is a new cluster, and the voter becomes *full*.
- Otherwise every earlier vote or acknowledgement of this voter was in a term that another voter knows. It moves to a
  later term than all of those, without a vote in it, and is *catching up*. It accepts and acknowledges entries, but
  does not vote or stand for election. This lasts until it has an entry that the leader of a later term has committed
  in that term.
- Then it is *full*. That leader was elected without its vote, so each entry that this voter had helped to commit is
  on one of that leader's voters. A leader of an earlier term would not do: it still counts this voter's forgotten
  acknowledgements, and may have committed entries that have not arrived here. It resigns, and is elected again.

Ongaro's thesis leaves this open (a server's identity is its disk); docs/adr/0006 has the reasoning.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any, Protocol

_log = logging.getLogger(__name__)
STATUS_INTERVAL_S = 0.1
WARNING_INTERVAL_S = 10.0


class Standing(StrEnum):
    """A voter's step on the way to a full voter; see the module's docstring."""

    BLANK = "blank"
    CATCHING_UP = "catching up"
    FULL = "full"


class Core(Protocol):
    """The part of the engine that rejoining uses."""

    term: int
    commit_index: int

    def log(self) -> Any: ...

    def now(self) -> float: ...

    def voters(self) -> list[Any]:
        """Return every other voter, as the transport's nodes."""
        ...

    def transmit(self, node: Any, message: dict[str, Any]) -> bool: ...

    def forfeit_vote(self, term: int) -> None:
        """Move to a term in which this voter must not vote."""
        ...

    def set_standing(self, standing: Standing) -> None: ...


class Rejoin:
    """Brings one voter to full standing. The journal stores the standing."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._answers: dict[str, tuple[bool, int]] = {}
        self._next_status_at = 0.0
        self._next_warning_at = core.now() + WARNING_INTERVAL_S

    @property
    def standing(self) -> Standing:
        return Standing(self._core.log().standing)

    @property
    def is_full(self) -> bool:
        return self._core.log().standing == Standing.FULL  # type: ignore[no-any-return]

    def tick(self) -> None:
        """Ask the voters that have not answered yet, if this voter is blank."""
        if self.standing is not Standing.BLANK:
            return
        self._decide_standing()
        now = self._core.now()
        if now < self._next_status_at:
            return
        self._next_status_at = now + STATUS_INTERVAL_S
        missing = [node for node in self._core.voters() if node.id not in self._answers]
        for node in missing:
            self._core.transmit(node, {"type": "status"})
        if missing and now >= self._next_warning_at:
            self._next_warning_at = now + WARNING_INTERVAL_S
            names = ", ".join(sorted(node.id for node in missing))
            _log.warning(
                "this voter has no journal, and waits until every other voter has answered; missing: %s", names
            )

    def on_status(self, node: Any) -> None:
        """Answer with this voter's term and whether it has a log."""
        has_log = self._core.log()[-1][1] > 1
        self._core.transmit(node, {"type": "status_ok", "term": self._core.term, "has_log": has_log})

    def on_status_ok(self, node: Any, message: dict[str, Any]) -> None:
        """Record another voter's answer."""
        self._answers[node.id] = (bool(message["has_log"]), int(message["term"]))
        if self.standing is Standing.BLANK:
            self._decide_standing()

    def on_append(self, leader_term: int) -> None:
        """Become a full voter if an entry of the leader's own term is committed here."""
        log, commit_index = self._core.log(), self._core.commit_index
        if self.standing is not Standing.CATCHING_UP or self._core.term != leader_term:
            return
        at = commit_index - log[0][1]
        if 0 <= at < len(log) and log[at][2] == leader_term:
            _log.info("caught up at index %d in term %d: voting again", commit_index, leader_term)
            self._core.set_standing(Standing.FULL)

    def _decide_standing(self) -> None:
        if any(node.id not in self._answers for node in self._core.voters()):
            return
        highest = max((term for _, term in self._answers.values()), default=0)
        if any(has_log for has_log, _ in self._answers.values()):
            _log.warning("this voter has no journal, but other voters have: it catches up before it votes")
            self._core.forfeit_vote(max(highest, self._core.term) + 1)
            self._core.set_standing(Standing.CATCHING_UP)
            return
        if highest:
            self._core.forfeit_vote(max(highest, self._core.term))
        self._core.set_standing(Standing.FULL)
