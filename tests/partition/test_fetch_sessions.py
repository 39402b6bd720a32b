"""Fetch sessions, both sides without IO. Stories in `stories/sessions/` show requests, responses and positions."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from story_support import require_story

from raftlog.errors import ErrorCode, RaftlogError
from raftlog.model import PartitionState, TopicIdPartition
from raftlog.partition.core.fetch_sessions import LeaderSession, LeaderSessions
from raftlog.partition.core.follower_session import FollowerSession
from raftlog.partition.core.leader import IsrLimits, LeaderCore, LogOffsets
from raftlog.wire.errors import WireError
from raftlog.wire.replication import ReplicaFetchPartition, ReplicaFetchRequest, ReplicaFetchResult

STORIES = sorted((Path(__file__).parent / "stories" / "sessions").glob("*.txt"))
LEADER, FOLLOWER = 1, 2
LIMITS = IsrLimits(lag_time_max_ms=10_000, silence_max_ms=2_000)


def key_of(letter: str) -> TopicIdPartition:
    return TopicIdPartition(letter, 0)


class Story:
    """Broker 1 leads partitions a, b and c, which broker 2 follows; the story delivers the messages."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.follower, self.broker_epoch = FollowerSession(), 20
        self.held: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.requests: list[ReplicaFetchRequest] = []
        self.answers: list[tuple[str, list[ReplicaFetchResult]]] = []
        self.incarnation = 10
        self.cores: dict[str, LeaderCore] = {}
        self.ends: dict[str, int] = {}
        self.limit = 2
        self._serve_anew()

    def _serve_anew(self) -> None:
        self.closed: list[str] = []
        self.sessions = LeaderSessions(
            on_closed=lambda session: self.closed.append(session.session_id), limit=self.limit
        )

    def run(self, line: str) -> str:
        name, *words = shlex.split(line)
        arguments = dict(word.split("=", 1) for word in words)
        try:
            return str(getattr(self, f"do_{name}")(**arguments))
        except RaftlogError as error:
            return error.code.value

    # The leader.

    def do_lead(self, epoch: str = "0", **ends: str) -> str:
        for letter, end in ends.items():
            self.ends[letter] = int(end)
            state = PartitionState(
                replicas=(1, 2), isr=(1, 2), leader=LEADER, leader_epoch=int(epoch), partition_epoch=int(epoch)
            )
            self.cores[letter] = LeaderCore(
                broker_id=LEADER,
                state=state,
                log=LogOffsets(end=int(end), own_end=int(end), high_watermark=0),
                min_insync_replicas=1,
                limits=LIMITS,
                now_ms=self.now_ms,
            )
            self._news(letter)
        return self._marks(*ends)

    def do_append(self, **ends: str) -> str:
        for letter, end in ends.items():
            self.ends[letter] = int(end)
            self.cores[letter].on_local_append(int(end))
            self.cores[letter].on_local_end(int(end))
            self._news(letter)
        return self._marks(*ends)

    def do_leader_restart(self) -> str:
        self.incarnation += 1
        self._serve_anew()
        return f"broker epoch {self.incarnation}"

    def do_resign(self, partition: str) -> str:
        del self.cores[partition]
        self._news(partition)
        return "no leader here"

    def do_serve(self, request: str = "") -> str:
        """Answer the newest request, or that of a number."""
        asked = self.requests[int(request) if request else -1]
        session = self.sessions.on_request(asked, broker_epoch=self.incarnation, now_ms=self.now_ms)
        for gone in asked.forgotten:
            if gone.topic_id in self.cores:
                self.cores[gone.topic_id].on_follower_left(FOLLOWER, session.clock)
        for position in asked.partitions:
            core = self.cores.get(position.topic_id)
            if core is not None and core.state.leader_epoch == position.leader_epoch:
                moved = core.on_follower_fetch(
                    asked.replica_id,
                    broker_epoch=asked.broker_epoch,
                    fetch_offset=position.fetch_offset,
                    now_ms=self.now_ms,
                    session=session.clock,
                )
                if moved:
                    self._news(position.topic_id)
        self.under_way = (session, asked.session_epoch)
        return self._look(session)

    def do_wake(self) -> str:
        """Look again for the request that is parked."""
        session, epoch = self.under_way
        session.require_under_way(epoch)
        return self._look(session)

    def _look(self, session: LeaderSession) -> str:
        results = [self._result(session.partitions[key].position) for key in session.dirty()]
        said = [result for result in results if session.urgency(result) or result.length]
        if not said:
            return "parked"
        session.on_answered(said)
        self.answers.append((session.session_id, said))
        return f"session {session.session_id}: " + ", ".join(map(_shown, said))

    def _result(self, position: ReplicaFetchPartition) -> ReplicaFetchResult:
        letter, named = position.topic_id, {"topic_id": position.topic_id, "partition": 0}
        core = self.cores.get(letter)
        if core is None or core.state.leader_epoch != position.leader_epoch:
            code = "NOT_LEADER_OR_FOLLOWER" if core is None else "FENCED_LEADER_EPOCH"
            return ReplicaFetchResult(**named, error=WireError(code=code, message=""))
        length = self.ends[letter] - position.fetch_offset
        return ReplicaFetchResult(**named, length=length, high_watermark=core.high_watermark, log_start_offset=0)

    def _news(self, letter: str) -> None:
        for session in self.sessions._by_follower.values():
            session.mark(key_of(letter))

    def do_isr(self) -> str:
        """Return the replicas that the leader would remove from the ISR."""
        out = [letter for letter, core in self.cores.items() if core._out_of_sync(FOLLOWER, self.now_ms)]
        return f"out of sync: {','.join(out) or 'none'}"

    def _marks(self, *letters: str) -> str:
        return " ".join(
            f"{letter}: end={self.ends[letter]} hw={self.cores[letter].high_watermark}" for letter in letters
        )

    def do_marks(self) -> str:
        return self._marks(*self.cores)

    # The follower.

    def do_follow(self, **epochs: str) -> str:
        wanted = {letter: int(epoch) for letter, epoch in epochs.items()}
        self.follower.follow(key_of(letter) for letter in wanted)
        for letter, epoch in wanted.items():
            self.held.setdefault(letter, 0)
            if self.epochs.get(letter) != epoch:
                self.follower.name(key_of(letter))
        self.epochs = wanted
        return "follows " + ",".join(wanted)

    def do_follower_restart(self) -> str:
        self.broker_epoch += 1
        self.follower, wanted = FollowerSession(), self.epochs
        self.epochs = {}
        return self.do_follow(**{letter: str(epoch) for letter, epoch in wanted.items()})

    def do_ask(self) -> str:
        part = self.follower.next_request(self._position)
        request = ReplicaFetchRequest(
            replica_id=FOLLOWER,
            broker_epoch=self.broker_epoch,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            answers_lost=part.answers_lost,
            forgotten=part.forgotten,
            partitions=part.partitions,
        )
        self.requests.append(request)
        named = ",".join(f"{p.topic_id}@{p.fetch_offset}/e{p.leader_epoch}" for p in part.partitions) or "nothing"
        forgets = f" forgets {','.join(key.topic_id for key in part.forgotten)}" if part.forgotten else ""
        lost = " answers lost" if part.answers_lost else ""
        return (
            f"({len(self.requests) - 1}) {part.session_id or 'new'}/{part.session_epoch} names {named}{forgets}{lost}"
        )

    def do_other(self, replica: str, broker_epoch: str = "30") -> str:
        """Another follower opens a session with no partitions."""
        request = ReplicaFetchRequest(
            replica_id=int(replica), broker_epoch=int(broker_epoch), session_epoch=0, partitions=()
        )
        return self.sessions.on_request(request, broker_epoch=self.incarnation, now_ms=self.now_ms).session_id

    def _position(self, key: TopicIdPartition) -> ReplicaFetchPartition:
        letter = key.topic_id
        return ReplicaFetchPartition(
            topic_id=letter,
            partition=0,
            leader_epoch=self.epochs[letter],
            fetch_offset=self.held[letter],
            last_fetched_epoch=-1,
        )

    def do_arrive(self) -> str:
        """Take the newest answer."""
        session_id, results = self.answers[-1]
        self.follower.on_answer(session_id)
        for result in results:
            if result.error is not None:
                self.follower.hold_back(result.key)
            elif result.length:
                self.held[result.topic_id] += result.length
                self.follower.name(result.key)
        return "holds " + " ".join(f"{letter}={held}" for letter, held in self.held.items())

    def do_rested(self, partition: str) -> str:
        self.follower.name(key_of(partition))
        return "will be named"

    def do_abandon(self) -> str:
        self.follower.on_abandoned()
        return "given up"

    def do_fail(self, code: str = "BROKER_NOT_AVAILABLE") -> str:
        return "asks at once" if self.follower.on_failure(ErrorCode(code)) else "backs off"

    def do_time_up(self) -> str:
        """The parked request is answered with nothing."""
        session, _ = self.under_way
        session.on_answered([])
        self.answers.append((session.session_id, []))
        return "answers nothing"

    def do_idle(self, ms: str) -> str:
        """Fetch for a while, each 500 ms, without new records."""
        said = set()
        for _ in range(int(ms) // 500):
            self.now_ms += 500
            said.add((self.do_ask().split(" ", 2)[2], self.do_serve(), self.do_time_up()))
            self.do_arrive()
        return f"now={self.now_ms}: " + "; ".join(", ".join(words) for words in sorted(said))

    def do_wait(self, ms: str) -> str:
        self.now_ms += int(ms)
        return f"now={self.now_ms}"


def _shown(result: ReplicaFetchResult) -> str:
    if result.error is not None:
        return f"{result.topic_id} {result.error.code}"
    return f"{result.topic_id} +{result.length} hw={result.high_watermark}"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_stories(path: Path):
    require_story(path, Story().run)


def test_there_are_stories():
    assert len(STORIES) >= 8


def test_a_partition_followed_again_before_the_next_request_stays_in_the_session():
    story = Story()
    for line in ("lead a=0 b=0", "follow a=0 b=0", "ask", "serve", "time_up", "arrive"):
        story.run(line)
    story.run("follow a=0")
    story.run("follow a=0 b=0")

    assert story.run("ask") == "(1) 10-1/1 names b@0/e0"


def test_sessions_are_bounded_and_evicted_ones_are_reported():
    closed: list[LeaderSession] = []
    sessions = LeaderSessions(on_closed=closed.append, limit=3)
    for replica in range(10):
        request = ReplicaFetchRequest(replica_id=replica, broker_epoch=1, session_epoch=0, partitions=())
        sessions.on_request(request, broker_epoch=5, now_ms=0)
    sessions.close()

    assert [session.follower for session in closed] == list(range(10))
    assert len({session.session_id for session in closed}) == 10
    assert (len(sessions), all(session.closed for session in closed)) == (0, True)
