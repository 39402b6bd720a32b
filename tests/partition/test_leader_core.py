"""The leader's rules: high watermark, in-sync replicas, limits. Stories in `stories/` tell them step by step."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from story_support import require_story

from raftlog.errors import ErrorCode, RaftlogError
from raftlog.model import PartitionState
from raftlog.partition.core.leader import IsrLimits, LeaderCore, LogOffsets, SessionClock

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


class Story:
    """Runs the commands of a story on one LeaderCore; broker 1 leads replicas 1, 2 and 3."""

    def __init__(self) -> None:
        self.core: LeaderCore | None = None
        self.now_ms = 0
        self.eligible = {1: 11, 2: 12, 3: 13}

    def run(self, line: str) -> str:
        name, *words = shlex.split(line)
        arguments = dict(word.split("=", 1) for word in words)
        return str(getattr(self, f"do_{name}")(**arguments))

    def show(self) -> str:
        assert self.core is not None
        pending = "" if self.core.pending_isr is None else f" pending={_set(self.core.pending_isr)}"
        return f"hw={self.core.high_watermark} isr={_set(self.core.state.isr)}{pending}"

    def do_lead(self, isr: str, end: str, hw: str = "0", min_isr: str = "2", held: str = "", start: str = "0") -> str:
        self.min_insync_replicas = int(min_isr)
        self.core = LeaderCore(
            broker_id=1,
            state=PartitionState(replicas=(1, 2, 3), isr=_ids(isr), leader=1, leader_epoch=5, partition_epoch=1),
            log=LogOffsets(start=int(start), end=int(end), own_end=int(held or end), high_watermark=int(hw)),
            min_insync_replicas=self.min_insync_replicas,
            limits=IsrLimits(lag_time_max_ms=10_000, silence_max_ms=2_000),
            now_ms=self.now_ms,
        )
        self.core.on_local_end(int(held or end))
        return self.show()

    def do_append(self, end: str, held: str = "") -> str:
        assert self.core is not None
        self.core.on_local_append(int(end))
        self.core.on_local_end(int(held or end))
        return self.show()

    def do_held(self, end: str) -> str:
        assert self.core is not None
        self.core.on_local_end(int(end))
        return self.show()

    def do_fetch(self, follower: str, offset: str, broker_epoch: str = "", start: str = "0") -> str:
        assert self.core is not None
        epoch = int(broker_epoch or 10 + int(follower))
        self.core.on_follower_fetch(
            int(follower),
            broker_epoch=epoch,
            fetch_offset=int(offset),
            now_ms=self.now_ms,
            log_start_offset=int(start),
        )
        return self.show()

    def do_delete(self, below: str) -> str:
        assert self.core is not None
        self.core.on_deletion(int(below))
        return f"deleted for good below {self.core.low_watermark(int(below))}"

    def do_wait(self, ms: str) -> str:
        self.now_ms += int(ms)
        return f"now={self.now_ms}"

    def do_propose(self, without: str = "") -> str:
        assert self.core is not None
        eligible = {broker: epoch for broker, epoch in self.eligible.items() if broker not in _ids(without)}
        proposed = self.core.propose_isr(eligible, self.now_ms)
        return "nothing" if proposed is None else f"propose {_set(proposed)}; {self.show()}"

    def do_metadata(self, isr: str, epoch: str, elr: str = "") -> str:
        assert self.core is not None
        state = PartitionState(
            replicas=(1, 2, 3),
            isr=_ids(isr),
            leader=1,
            leader_epoch=5,
            partition_epoch=int(epoch),
            elr=_ids(elr),
        )
        self.core.on_state(state, self.now_ms, min_insync_replicas=self.min_insync_replicas)
        return self.show()

    def do_refused(self) -> str:
        assert self.core is not None
        self.core.on_proposal_refused()
        return self.show()

    def do_require(self) -> str:
        assert self.core is not None
        try:
            self.core.require_min_isr()
        except RaftlogError as error:
            return error.code.value
        return "enough"


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def _set(members) -> str:
    return ",".join(map(str, sorted(members)))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_stories(path: Path):
    require_story(path, Story().run)


def test_there_are_stories():
    assert len(STORIES) >= 4


def test_a_fetch_beyond_the_log_is_our_own_bug():
    story = Story()
    story.run("lead isr=1,2 end=5")

    with pytest.raises(AssertionError):
        story.run("fetch follower=2 offset=6")


def test_too_few_replicas_are_named():
    story = Story()
    story.run("lead isr=1 end=5")
    assert story.core is not None

    with pytest.raises(RaftlogError) as refused:
        story.core.require_min_isr()

    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert refused.value.details == {"isr": [1], "min_insync_replicas": 2}


def test_a_follower_that_reaches_the_previous_log_end_at_each_fetch_stays_in_the_isr():
    """However long: the log is never at the same place twice when it asks."""
    story = Story()
    story.run("lead isr=1,2 end=0")
    for number in range(12):
        story.run(f"append end={10 * number + 10}")
        story.run(f"fetch follower=2 offset={10 * number}")
        story.run("wait ms=1500")
    assert story.run("propose") == "nothing"


def test_the_end_of_an_earlier_session_says_nothing_of_the_present_one():
    story = Story()
    story.run("lead isr=1,2 end=5")
    core, earlier, present = story.core, SessionClock(), SessionClock()
    assert core is not None
    for session in (earlier, present):
        core.on_follower_fetch(2, broker_epoch=12, fetch_offset=5, now_ms=0, session=session)

    core.on_follower_left(2, earlier)

    assert core.counts_session(2, present)
