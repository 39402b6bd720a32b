"""Guards whose faults need so much to go wrong in a row that random schedules seldom see it: one message at a time."""

from __future__ import annotations

from typing import Any

import pytest
from mutants_support import SCRIPTED

from raftlog.metadata_quorum.raft.guard import Guard, Message
from raftlog.metadata_quorum.raft.rejoin import Standing


class Log(list[tuple[bytes, int, int]]):
    standing = Standing.FULL


class Voter:
    def __init__(self, name: str) -> None:
        self.id = name


class FakeCore:
    """What PySyncObj's core would do with what the guard lets through."""

    term, commit_index, last_applied, is_leader, min_election_timeout_s = 5, 1, 1, False, 0.4

    def __init__(self) -> None:
        self.guard = Guard(self, fatal=pytest.fail)  # type: ignore[arg-type]
        self.entries = Log((b"x", index, term) for index, term in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 2)))
        self.votes: list[str] = []
        self.sent: list[Message] = []

    def log(self) -> Log:
        return self.entries

    def now(self) -> float:
        return 0.0

    def sync(self) -> None:
        """Memory is enough here."""

    def is_voter(self, node: Voter) -> bool:
        return True

    def transmit(self, node: Voter, message: Message) -> bool:
        self.sent.append(message)
        return True

    def receive(self, node: Voter, message: Message) -> None:
        if message["type"] == "response_vote":
            self.votes.append(node.id)
        else:  # The core answers with the end of its own log, whatever the message has shown.
            answer = {
                "type": "next_node_idx",
                "success": True,
                "reset": False,
                "next_node_idx": self.entries[-1][1] + 1,
            }
            self.guard.send(node, answer)


def votes_counted() -> list[str]:
    """Votes of B, of C in an earlier term, and of B again, as a network that repeats and delays may deliver them."""
    core, one, other = FakeCore(), Voter("B"), Voter("C")
    for node, term in ((one, 5), (other, 4), (one, 5)):
        core.guard.receive(node, {"type": "response_vote", "term": term})
    return core.votes


def acknowledged() -> Any:
    """The leader has shown that entry 3 is its own too; 4 and 5 are left from another leader."""
    core = FakeCore()
    append = {"type": "append_entries", "term": 5, "seq": 1, "commit_index": 1, "prevLogIdx": 2, "prevLogTerm": 1}
    core.guard.receive(Voter("A"), {**append, "entries": [(b"x", 3, 1)]})
    return core.sent[-1]["next_node_idx"]


def test_a_vote_counts_once_and_in_its_own_term():
    assert votes_counted() == ["B"]


def test_an_acknowledgement_ends_where_the_message_has_proved_the_logs_equal():
    assert acknowledged() == 4


def test_both_would_notice(monkeypatch: pytest.MonkeyPatch):
    for mutate in SCRIPTED.values():
        mutate(monkeypatch)

    assert votes_counted() != ["B"]
    assert acknowledged() != 4
