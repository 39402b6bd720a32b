"""What a voter may do that starts without a journal: its disk is new, or was replaced.

A voter that has lost its disk has forgotten entries that it acknowledged and votes that it gave, and could help to
elect a leader without those entries, or vote twice. So it takes part only step by step:

- *blank*: it asks every other voter, not only a majority, whether that has a log, and for its term. Nothing else.
- All of them have none: this is a new cluster, and everybody is a full voter.
- Somebody has one: whatever this voter promised before, it promised in a term that another voter knows. It moves to a
  later term than all of those, without a vote in it, and is *catching up*: it takes and acknowledges entries, but
  neither votes nor stands for election, until it holds what the leader of a later term has committed in that term.
- Then it is a *full* voter: that leader was elected without its vote, so by voters of which one holds each entry that
  this voter had helped to commit. A leader of a known term would not do. It goes on counting what this voter has
  acknowledged and forgotten, and may have committed more than the part that has arrived. It ends, and is elected anew.

Ongaro's thesis leaves this open (a server's identity is its disk); docs/adr/0006 has the reasoning.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Any, Protocol

_log = logging.getLogger(__name__)
ASK_EVERY_S = 0.1
SAY_EVERY_S = 10.0


class Standing(StrEnum):
    """How far a voter takes part."""

    BLANK = "blank"
    CATCHING_UP = "catching up"
    FULL = "full"


class Core(Protocol):
    """What this needs of the engine."""

    term: int
    commit_index: int

    def log(self) -> Any: ...

    def now(self) -> float: ...

    def voters(self) -> list[Any]:
        """Return every other voter, as the wire knows them."""
        ...

    def transmit(self, node: Any, message: dict[str, Any]) -> bool: ...

    def forfeit_vote(self, term: int) -> None:
        """Move to a term in which this voter must not vote any more."""
        ...

    def set_standing(self, standing: Standing) -> None: ...


class Rejoin:
    """One voter's way to its full standing, kept in its journal."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._answers: dict[str, tuple[bool, int]] = {}
        self._ask_at = 0.0
        self._say_at = core.now() + SAY_EVERY_S

    @property
    def standing(self) -> Standing:
        return Standing(self._core.log().standing)

    @property
    def is_full(self) -> bool:
        return self._core.log().standing == Standing.FULL  # type: ignore[no-any-return]

    def tick(self) -> None:
        """Ask those who have not answered yet."""
        if self.standing is not Standing.BLANK:
            return
        self._judge()
        now = self._core.now()
        if now < self._ask_at:
            return
        self._ask_at = now + ASK_EVERY_S
        unheard = [node for node in self._core.voters() if node.id not in self._answers]
        for node in unheard:
            self._core.transmit(node, {"type": "status"})
        if unheard and now >= self._say_at:
            self._say_at = now + SAY_EVERY_S
            names = ", ".join(sorted(node.id for node in unheard))
            _log.warning(
                "this voter has no journal and takes part only once every voter has answered; not yet: %s", names
            )

    def on_status(self, node: Any) -> None:
        """Say whether this voter has a log, and in which term it is."""
        has_log = self._core.log()[-1][1] > 1
        self._core.transmit(node, {"type": "status_ok", "term": self._core.term, "has_log": has_log})

    def on_status_ok(self, node: Any, message: dict[str, Any]) -> None:
        """Take in another voter's answer."""
        self._answers[node.id] = (bool(message["has_log"]), int(message["term"]))
        if self.standing is Standing.BLANK:
            self._judge()

    def on_append(self, leader_term: int) -> None:
        """Learn that entries of a leader were taken in: that may have been the last step."""
        log, commit_index = self._core.log(), self._core.commit_index
        if self.standing is not Standing.CATCHING_UP or self._core.term != leader_term:
            return
        at = commit_index - log[0][1]
        if 0 <= at < len(log) and log[at][2] == leader_term:
            _log.info("caught up at index %d in term %d: voting again", commit_index, leader_term)
            self._core.set_standing(Standing.FULL)

    def _judge(self) -> None:
        if any(node.id not in self._answers for node in self._core.voters()):
            return
        highest = max((term for _, term in self._answers.values()), default=0)
        if any(has_log for has_log, _ in self._answers.values()):
            _log.warning("this voter has no journal, but the cluster has one: catching up before it votes")
            self._core.forfeit_vote(max(highest, self._core.term) + 1)
            self._core.set_standing(Standing.CATCHING_UP)
            return
        if highest:
            self._core.forfeit_vote(max(highest, self._core.term))
        self._core.set_standing(Standing.FULL)
