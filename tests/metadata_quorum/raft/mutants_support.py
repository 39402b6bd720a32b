"""Our engine with one guard broken at a time, as an edit could break it by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from raftlog.metadata_quorum.raft import frames, journal, snapshots
from raftlog.metadata_quorum.raft.engine import RaftEngine
from raftlog.metadata_quorum.raft.guard import Guard, Message
from raftlog.metadata_quorum.raft.journal import RaftJournal
from raftlog.metadata_quorum.raft.rejoin import Rejoin, Standing
from raftlog.metadata_quorum.raft.scrub import Corruption
from raftlog.metadata_quorum.raft.snapshots import Snapshots

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]
MUTANTS: dict[str, Mutant] = {}
"""Random schedules find these."""
SCRIPTED: dict[str, Mutant] = {}
"""These need more faults in a row than random schedules produce: `test_guard` finds them."""


def mutant(mutate: Mutant) -> Mutant:
    MUTANTS[mutate.__name__] = mutate
    return mutate


def scripted(mutate: Mutant) -> Mutant:
    SCRIPTED[mutate.__name__] = mutate
    return mutate


@mutant
def s1_commit_beyond_the_message(patch: Patch) -> None:
    trim = Guard._trim
    patch.setattr(Guard, "_trim", lambda self, m: {**trim(self, m), "commit_index": m["commit_index"]})


@mutant
def s1_commit_by_snapshot_message(patch: Patch) -> None:
    check = Guard._on_append_entries

    def on_append_entries(self: Guard, node: Any, message: Message) -> Message | None:
        checked = check(self, node, message)
        if checked is not None and "prevLogIdx" not in message:
            checked["commit_index"] = message["commit_index"]
        return checked

    patch.setattr(Guard, "_on_append_entries", on_append_entries)


@scripted
def s1_acknowledge_the_own_end(patch: Patch) -> None:
    complete = Guard._complete_ack

    def complete_ack(self: Guard, message: Message) -> None:
        self._ack_cap = None
        complete(self, message)

    patch.setattr(Guard, "_complete_ack", complete_ack)


@mutant
def s2_believe_acks_of_any_term(patch: Patch) -> None:
    check = Guard._on_next_node_idx
    patch.setattr(Guard, "_on_next_node_idx", lambda self, node, m: check(self, node, {**m, "term": self._core.term}))


@mutant
def s3_cut_what_matches(patch: Patch) -> None:
    def trim(self: Guard, message: Message) -> Message:
        end = message["prevLogIdx"] + len(message.get("entries") or ())
        return {**message, "commit_index": min(message["commit_index"], end)}

    patch.setattr(Guard, "_trim", trim)


@mutant
def s4_clear_the_log_after_a_snapshot(patch: Patch) -> None:
    patch.setattr(RaftJournal, "trim_to_snapshot", lambda self, previous, last: None)


@mutant
def s5_take_any_chunk(patch: Patch) -> None:
    patch.setattr(Guard, "_is_next_chunk", lambda self, node, message: True)


@mutant
def s5_clear_what_follows_a_snapshot(patch: Patch) -> None:
    patch.setattr(Guard, "_needs_snapshot", lambda self, index, term: index > self._core.last_applied)


@mutant
def s6_lead_before_the_no_op(patch: Patch) -> None:
    heard = RaftEngine.leader_name.fget
    patch.setattr(
        RaftEngine, "leader_name", property(lambda self: str(self.selfNode.id) if self.is_leader else heard(self))
    )


@mutant
def count_answers_instead_of_voters(patch: Patch) -> None:
    patch.setattr(Guard, "_on_response_vote", lambda self, node, message: message)


@scripted
def forget_who_voted(patch: Patch) -> None:
    """By a late vote of an earlier term."""

    def on_response_vote(self: Guard, node: Any, message: Message) -> Message | None:
        if self._votes[0] != message["term"]:
            self._votes = (message["term"], set())
        if node.id in self._votes[1]:
            return None
        self._votes[1].add(node.id)
        return message

    patch.setattr(Guard, "_on_response_vote", on_response_vote)


@mutant
def send_before_sync(patch: Patch) -> None:
    patch.setattr(RaftEngine, "sync", lambda self: None)


@mutant
def send_then_sync(patch: Patch) -> None:
    """A message may arrive although its sender dies before it has written its promise down."""
    send = Guard.send

    def send_first(self: Guard, node: Any, message: Message) -> bool:
        core = self._core
        with pytest.MonkeyPatch.context() as within:
            within.setattr(core, "sync", lambda: None)
            sent = send(self, node, message)
        core.sync()
        return sent

    patch.setattr(Guard, "send", send_first)


@mutant
def no_pre_vote(patch: Patch) -> None:
    patch.setattr(RaftEngine, "_pre_vote_gate", lambda self: None)


@mutant
def silence_for_past_terms(patch: Patch) -> None:
    on_pre_vote = Guard._on_pre_vote

    def answer(self: Guard, node: Any, message: Message) -> None:
        if message["term"] > self._core.term:
            on_pre_vote(self, node, message)

    patch.setattr(Guard, "_on_pre_vote", answer)


@mutant
def rejoin_at_once(patch: Patch) -> None:
    """A voter without a journal votes."""
    patch.setattr(Rejoin, "tick", lambda self: self.is_full or self._core.set_standing(Standing.FULL))


@mutant
def rejoin_after_a_majority(patch: Patch) -> None:
    """A voter without a journal waits for a majority only."""
    judge = Rejoin._decide_standing

    def enough(self: Rejoin) -> None:
        voters = self._core.voters()
        heard = [node for node in voters if node.id in self._answers]
        if len(heard) + 1 > (len(voters) + 1) // 2 and self.standing is Standing.BLANK:
            with pytest.MonkeyPatch.context() as within:
                within.setattr(self._core, "voters", lambda: heard)
                judge(self)

    patch.setattr(Rejoin, "_decide_standing", enough)


@mutant
def rejoin_before_catching_up(patch: Patch) -> None:
    def full_after_any_entry(self: Rejoin, leader_term: int) -> None:
        if self.standing is Standing.CATCHING_UP and self._core.log()[-1][1] > 1:
            self._core.set_standing(Standing.FULL)

    patch.setattr(Rejoin, "on_append", full_after_any_entry)


@mutant
def rejoin_in_a_known_term(patch: Patch) -> None:
    """The leader of that term still counts the voter's earlier acknowledgements, and commits piece by piece."""
    forfeit = RaftEngine.forfeit_vote
    patch.setattr(RaftEngine, "forfeit_vote", lambda self, term: forfeit(self, max(term - 1, self.term)))


@mutant
def rejoin_without_forfeiting(patch: Patch) -> None:
    patch.setattr(RaftEngine, "forfeit_vote", lambda self, term: None)


@mutant
def go_on_after_disk_errors(patch: Patch) -> None:
    patch.setattr(RaftEngine, "_stopping_on_disk_errors", lambda self: nullcontext())


@mutant
def folder_not_synced(patch: Patch) -> None:
    patch.setattr(journal, "fsync_folder", lambda folder: None)


# Bits that change in stored files.


def _unchecked(patch: Patch, kinds: bytes) -> None:
    """Accept records of some kinds without a right checksum, if they end at a record's end."""
    checked = frames._Format.record_at

    def record_at(self: frames._Format, data: bytes, at: int) -> frames._Record | None:
        start = at + self.head_bytes
        if start >= len(data) or data[start] not in kinds:
            return checked(self, data, at)
        length, _, write = self.fields.unpack_from(data, at + 1)
        end = start + length
        if not start < end < len(data) or data[end] != 0xFF:
            return None
        return frames._Record(data[start:end], end + 1, write >> 1, bool(write & 1))

    patch.setattr(frames._Format, "record_at", record_at)


@mutant
def rot_entries_are_not_checked(patch: Patch) -> None:
    _unchecked(patch, b"E")


@mutant
def rot_votes_are_not_checked(patch: Patch) -> None:
    _unchecked(patch, b"M")


@mutant
def rot_anywhere_is_a_torn_tail(patch: Patch) -> None:
    patch.setattr(frames, "_require_torn", lambda *args, **kwargs: None)


@mutant
def rot_of_the_last_record_is_a_torn_tail(patch: Patch) -> None:
    """A change in the middle is still refused."""
    patch.setattr(frames, "_is_torn", lambda tail, at, form: True)


def sectors_of_a_later_write_count_for_a_damaged_record(patch: Patch) -> None:
    """Random schedules find it once in ten thousand: `test_raft_journal` finds it."""
    lacks = frames._lacks_a_sector
    patch.setattr(frames, "_lacks_a_sector", lambda tail, at, end, form: lacks(tail, at, len(tail), form))


@mutant
def valid_records_of_a_torn_write_count_as_damage(patch: Patch) -> None:
    """As before records had the number of their write: a loss of power may keep a voter from starting."""
    records_after = frames._Format.records_after

    def of_another_write(self: frames._Format, data: bytes, at: int) -> Iterator[tuple[int, frames._Record]]:
        return ((start, replace(record, write=-1)) for start, record in records_after(self, data, at))

    patch.setattr(frames._Format, "records_after", of_another_write)


@mutant
def rot_of_a_length_makes_a_torn_tail(patch: Patch) -> None:
    """As before heads had a checksum."""
    patch.setattr(frames, "_head_is_valid", lambda fields, check: True)


@mutant
def rot_of_a_snapshot_is_not_looked_for(patch: Patch) -> None:
    patch.setattr(snapshots, "_body", lambda content: content[len(snapshots._MAGIC) + snapshots._HEAD.size :])


@mutant
def rot_is_sent(patch: Patch) -> None:
    """Again and again: no voter accepts it, and one that needs it never catches up."""
    patch.setattr(Snapshots, "_valid_content", lambda self: self._path.read_bytes())


@mutant
def rot_stays_though_it_was_looked_for(patch: Patch) -> None:
    patch.setattr(RaftEngine, "repair_files", lambda self: Corruption())
