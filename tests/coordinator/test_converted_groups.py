"""Groups change their protocol while they have members: upgrade, both kinds together, downgrade (docs/adr/0044)."""

from __future__ import annotations

from typing import Any

import pytest
from classic_support import REBALANCE_MS, SESSION_MS, ClassicShard, code_of
from converted_support import Consumer, reading, run, shard_of
from group_support import GROUP, Member

from raftlog.coordinator.group.administration import decide_classic_description, decide_description, listing_of
from raftlog.coordinator.group.classic_requests import Leaver
from raftlog.coordinator.group.offsets import decide_commit
from raftlog.errors import ErrorCode
from raftlog.model import TopicPartition
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest

HOW = pytest.mark.parametrize(("eager", "version"), [(True, 0), (True, 1), (True, 3), (False, 1), (False, 3)])


def classic_group(count: int = 2, **wishes: Any) -> tuple[ClassicShard, list[Consumer]]:
    shard = shard_of(t=6)
    members = [Consumer(shard, **wishes) for _ in range(count)]
    run(*members)
    assert shard.classic.phase == "Stable"
    assert reading(members) == sorted(shard.topics.partitions)
    return shard, members


def mixed_group(**wishes: Any) -> tuple[ClassicShard, list[Consumer], Member]:
    shard, classic = classic_group(**wishes)
    member = Member(shard, "x")
    run(*classic, member)
    return shard, classic, member


def kind(shard: ClassicShard) -> str:
    assert (GROUP in shard.state.groups) != (GROUP in shard.state.classic)
    return listing_of(shard.state, GROUP, 1).kind


class TestUpgrade:
    @HOW
    def test_a_member_of_the_consumer_protocol_joins_and_all_share(self, eager: bool, version: int):
        shard, classic = classic_group(eager=eager, version=version)
        member = Member(shard, "x")
        member.beat()
        assert kind(shard) == "consumer"
        assert member.owned == set()  # The classic members read everything until they have joined again.
        run(*classic, member)
        assert shard.group.phase == "Stable"
        assert reading([*classic, member]) == sorted(shard.topics.partitions)
        assert [len(one.owned) for one in (*classic, member)] == [2, 2, 2]
        assert {one.errors[-1] for one in classic} == {ErrorCode.REBALANCE_IN_PROGRESS}
        assert all(not {*one.errors} & {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION} for one in classic)

    def test_classic_members_keep_their_ids_partitions_and_sessions(self):
        shard, classic = classic_group()
        shard.pass_time(SESSION_MS - 1_000)
        before = {one.member_id: set(one.owned) for one in classic}
        shard.heartbeat("x", 0, topics=("t",), owned=())
        assert {name: {*shard.group.current[name].assigned} for name in shard.group.classic} == before
        shard.pass_time(1_000)
        assert shard.group.members.keys() == {"x"}  # Both were silent for a whole session.

    def test_a_cooperative_member_gives_up_only_what_moves(self):
        shard, classic = classic_group()
        member, before = Member(shard, "x"), [set(one.owned) for one in classic]
        seen = []
        for _ in range(20):
            run(*classic, member, rounds=1)
            seen.append([one.owned & had for one, had in zip(classic, before, strict=True)])
        kept = [one.owned & had for one, had in zip(classic, before, strict=True)]
        assert [len(some) for some in kept] == [2, 2]
        assert all(now >= end for step in seen for now, end in zip(step, kept, strict=True))

    def test_partitions_that_a_member_has_not_given_up_yet_are_not_assigned(self):
        """The leader has taken them from it, and the answer that tells it so is under way."""
        shard, (a,) = classic_group(1)
        newcomer = Consumer(shard)
        while a.doing != "sync":
            newcomer.step()
            a.step()
        a.step(lose_answer=True)
        assert (shard.classic.phase, len(a.owned)) == ("Stable", 6)
        member = Member(shard, "x")
        for _ in range(30):
            for one in (member, newcomer, a):
                one.step() if isinstance(one, Consumer) else one.beat()
                assert len(reading([a, newcomer, member])) == len({*reading([a, newcomer, member])})
        assert reading([a, newcomer, member]) == sorted(shard.topics.partitions)

    @pytest.mark.parametrize("phase", ["Preparing", "Completing"])
    @HOW
    def test_in_the_middle_of_a_rebalance(self, phase: str, eager: bool, version: int):
        shard, classic = classic_group(eager=eager, version=version)
        newcomer = Consumer(shard, eager=eager, version=version)
        everyone = [*classic, newcomer]
        for one in everyone:
            one.step()
            one.step()
        if phase == "Completing":
            while shard.classic.phase != "CompletingRebalance":
                for one in everyone:
                    one.step()
        assert shard.classic.phase == f"{phase}Rebalance"
        member = Member(shard, "x")
        for _ in range(30):
            for one in (member, *everyone):
                one.step() if isinstance(one, Consumer) else one.beat()
                assert len(reading([*everyone, member])) == len({*reading([*everyone, member])})
            shard.pass_time(500)
        assert reading([*everyone, member]) == sorted(shard.topics.partitions)
        assert shard.group.phase == "Stable"

    def test_the_first_members_of_a_new_classic_group_are_converted_while_they_wait(self):
        shard = shard_of(t=4)
        classic = [Consumer(shard) for _ in range(2)]
        for one in (*classic, *classic):
            one.step()
        assert (shard.classic.phase, shard.classic.generation) == ("PreparingRebalance", 0)
        member = Member(shard, "x")
        run(member, *classic)
        assert reading([*classic, member]) == sorted(shard.topics.partitions)

    def test_requests_that_wait_are_answered_in_the_converted_group(self):
        shard, (a, b) = classic_group()
        newcomer = Consumer(shard)
        newcomer.step()
        newcomer.step()
        a.step()
        a.step()
        assert (newcomer.doing, a.doing) == ("wait", "wait")
        shard.heartbeat("x", 0, topics=("t",), owned=())
        for one in (newcomer, a):
            one.step()
            assert one.doing == "sync"
            one.step()
        assert reading([a, b, newcomer]) == sorted({*a.owned, *b.owned, *newcomer.owned})

    def test_partitions_that_the_leader_did_not_know_yet_are_assigned(self):
        """The newcomer takes a static member's place with the same topics, which alone would begin no epoch."""
        shard, (a, b) = _static_pair()
        shard.topics.set("t", 7)
        member = Member(shard, "x", wishes={"instance_id": "a"})
        run(member, b)
        assert reading([member, b]) == sorted(shard.topics.partitions)
        assert a.member_id not in shard.group.members

    def test_a_leader_that_assigns_late_changes_nothing(self):
        shard, (a, b) = classic_group(eager=True)
        newcomer = Consumer(shard, eager=True)
        while shard.classic.phase != "CompletingRebalance":
            for one in (a, b, newcomer):
                one.step()
        leader, generation = shard.classic.leader, shard.classic.generation
        shard.heartbeat("x", 0, topics=("t",), owned=())
        epoch = shard.group.epoch
        assert code_of(shard.sync, leader, generation, assignments=((a.member_id, b"x"),)) is (
            ErrorCode.REBALANCE_IN_PROGRESS
        )
        assert shard.group.epoch == epoch

    @pytest.mark.parametrize(
        ("protocol_type", "metadata", "assignment"),
        [("connect", b"", b""), ("consumer", b"x", b""), ("consumer", None, b"x"), ("consumer", None, None)],
    )
    def test_what_cannot_be_converted_stays(self, protocol_type: str, metadata: Any, assignment: Any):
        """Another protocol type; no subscription; no assignment; one partition for both members."""
        shard = shard_of(t=4)
        said = Consumer(shard)._request().protocols[0][1] if metadata is None else metadata
        shared = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"
        given = shared if assignment is None else assignment
        wishes = {"protocol_type": protocol_type, "protocols": (("range", said),)}
        (one, first), (two, second) = shard.join(**wishes), shard.join(**wishes)
        shard.pass_time(5_000)
        for outcome, ticket in ((one, first), (two, second)):
            shard.wait_join(outcome.member_id, 0, ticket)
        shard.sync(one.member_id, 1, assignments=((one.member_id, given), (two.member_id, given)))
        assert shard.classic.phase == "Stable"
        before = len(shard.log)
        assert code_of(shard.heartbeat, "x", 0, topics=("t",), owned=()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (kind(shard), len(shard.log), shard.state.sessions) == ("classic", before, {})

    def test_a_group_that_does_not_fit_into_one_batch_stays(self, monkeypatch: pytest.MonkeyPatch):
        shard, _ = classic_group()
        monkeypatch.setattr("raftlog.coordinator.group.conversion.MAX_CONVERTED_BYTES", shard.classic.size - 1)
        assert code_of(shard.heartbeat, "x", 0, topics=("t",), owned=()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert kind(shard) == "classic"

    def test_brokers_of_earlier_versions_must_not_get_such_a_group(self):
        shard, classic = classic_group()
        shard.topics.have_both_protocols = False
        assert code_of(shard.heartbeat, "x", 0, topics=("t",), owned=()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        shard.leave(*(Leaver(member_id=one.member_id) for one in classic))
        shard.heartbeat("x", 0, topics=("t",), owned=())
        assert code_of(shard.join) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class TestTogether:
    @HOW
    def test_a_classic_member_joins_a_group_of_the_consumer_protocol(self, eager: bool, version: int):
        shard = shard_of(t=6)
        members = [Member(shard, "x"), Member(shard, "y")]
        run(*members)
        newcomer = Consumer(shard, eager=eager, version=version)
        run(*members, newcomer)
        assert reading([*members, newcomer]) == sorted(shard.topics.partitions)
        assert len(newcomer.owned) == 2

    @HOW
    def test_members_of_both_kinds_come_and_go(self, eager: bool, version: int):
        shard, classic, member = mixed_group(eager=eager, version=version)
        newcomer, other = Consumer(shard, eager=eager, version=version), Member(shard, "y")
        everyone = [*classic, member, newcomer, other]
        run(*everyone)
        assert reading(everyone) == sorted(shard.topics.partitions)
        shard.leave(Leaver(member_id=classic[0].member_id))
        member.leave()
        run(*everyone[1:2], *everyone[3:])
        assert kind(shard) == "consumer"
        assert reading([*everyone[1:2], *everyone[3:]]) == sorted(shard.topics.partitions)

    def test_a_slow_member_keeps_its_partitions_at_most_its_rebalance_time_out(self):
        shard, (a, b), member = mixed_group(rebalance_ms=8_000)
        a.slow = True
        other = Member(shard, "y")
        for _ in range(7):
            run(a, b, member, other, rounds=1, ms=1_000)
            assert len(reading([a, b, member, other])) == len({*reading([a, b, member, other])})
        assert a.member_id in shard.group.members
        run(b, member, other, rounds=12, ms=1_000)
        assert a.member_id not in shard.group.members
        assert reading([b, member, other]) == sorted(shard.topics.partitions)

    def test_a_member_that_never_joins_again_loses_its_place(self):
        shard, (a, b), member = mixed_group(rebalance_ms=8_000)
        shard.topics.set("t", 7)  # Another epoch.
        for _ in range(9):
            member.beat()
            if a.member_id in shard.group.members:  # It sends heartbeats, and never joins.
                a._beat_meanwhile()
            b.step()
            shard.pass_time(1_000)
        assert a.member_id not in shard.group.members
        assert b.member_id in shard.group.members

    def test_requests_of_another_generation_are_refused(self):
        shard, (a, _), _ = mixed_group()
        for generation in (a.generation - 1, a.generation + 1, -1):
            assert code_of(shard.beat, a.member_id, generation) is ErrorCode.ILLEGAL_GENERATION
            assert code_of(shard.sync, a.member_id, generation) is ErrorCode.ILLEGAL_GENERATION

    def test_each_kind_of_member_uses_its_own_requests(self):
        shard, (a, _), member = mixed_group()
        assert code_of(shard.beat, member.name, member.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
        assert code_of(shard.sync, member.name, member.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
        assert code_of(shard.join, member_id=member.name) is ErrorCode.UNKNOWN_MEMBER_ID
        for epoch in (a.generation, -1):
            assert code_of(shard.heartbeat, a.member_id, epoch, owned=()) is ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("wishes", [{"protocol_type": "connect"}, {"protocols": (("other", b""),)}, {}])
    def test_a_join_that_does_not_fit_is_refused_and_changes_nothing(self, wishes: dict[str, Any]):
        shard, _, _ = mixed_group()
        before = len(shard.log)
        assert code_of(shard.join, **wishes) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert len(shard.log) == before

    def test_the_members_and_bytes_of_a_group_are_limited(self, monkeypatch: pytest.MonkeyPatch):
        shard, _, _ = mixed_group()
        monkeypatch.setattr("raftlog.coordinator.group.classic_in_consumer.MAX_CONVERTED_BYTES", 100)
        newcomer = Consumer(shard, topics=("t" * 200,))
        newcomer.step()
        assert newcomer.errors == [ErrorCode.MESSAGE_TOO_LARGE]
        monkeypatch.undo()
        shard.settings = type(shard.settings)(max_size=3)
        newcomer.step()
        assert newcomer.errors[1:] == [ErrorCode.GROUP_MAX_SIZE_REACHED]

    def test_an_id_that_was_promised_is_given_up(self):
        shard, _, _ = mixed_group()
        outcome, _ = shard.join(requires_known_id=True, protocols=Consumer(shard)._request().protocols)
        assert outcome.is_promised
        assert shard.leave(Leaver(member_id=outcome.member_id)) == [None]
        assert code_of(shard.join, member_id=outcome.member_id) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_member_that_reports_very_many_partitions_is_refused(self, monkeypatch: pytest.MonkeyPatch):
        shard, _, _ = mixed_group()
        monkeypatch.setattr("raftlog.coordinator.group.classic_protocols.MAX_OWNED", 5)
        newcomer = Consumer(shard, owned={TopicPartition("t", number) for number in range(6)})
        newcomer.step()
        assert newcomer.errors == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]

    def test_a_join_that_was_overtaken_releases_nothing(self):
        """It says that the member reads nothing, of an earlier generation: the member has joined and synced since."""
        shard, (a, b), member = mixed_group(eager=True, version=3)
        late = a._request()
        shard.topics.set("t", 12)
        run(member, a, b)
        had = {*a.owned}
        other = Member(shard, "y")
        other.beat()
        a_late = Consumer(shard, eager=True, member_id=a.member_id, generation=late_generation(late))
        a_late.step()
        assert shard.group.current[a.member_id].reserved >= had

    def test_topics_that_a_sender_may_not_describe_are_not_assigned(self):
        from raftlog.coordinator.group.classic_in_consumer import decide_join_of_consumer  # noqa: PLC0415

        shard, _, _ = mixed_group()
        shard.topics.set("secret", 3)
        join = Consumer(shard, topics=("t", "secret"))._request()
        outcome = shard.run(
            decide_join_of_consumer,
            shard.group,
            type(join)(**{name: getattr(join, name) for name in join.__slots__} | {"requires_known_id": False}),
            new_member_id="n",
            topics=shard.topics,
            settings=shard.settings,
            sees=lambda topic: topic == "t",
        )
        assert outcome.answer is not None
        assert "secret" not in shard.group.topics


def late_generation(join: Any) -> int:
    from raftlog.coordinator.group.classic_protocols import subscription_of  # noqa: PLC0415

    said = subscription_of(join.protocols[0][1])
    assert said is not None
    return said.generation


class TestDowngrade:
    @HOW
    @pytest.mark.parametrize("how", ["leaves", "times out", "is removed"])
    def test_classic_members_go_on_without_the_last_of_the_other_kind(self, how: str, eager: bool, version: int):
        shard, classic, member = mixed_group(eager=eager, version=version)
        generation = max(one.generation for one in classic)
        if how == "leaves":
            member.leave()
        elif how == "is removed":
            assert shard.leave(Leaver(member_id="x")) == [None]
        else:
            run(*classic, rounds=1 + shard.settings.session_timeout_ms // 1_000, ms=1_000)
        assert kind(shard) == "classic"
        run(*classic)
        assert shard.classic.phase == "Stable"
        assert shard.classic.generation > generation
        assert reading(classic) == sorted(shard.topics.partitions)
        assert all(ErrorCode.UNKNOWN_MEMBER_ID not in one.errors for one in classic)
        assert GROUP not in shard.state.groups

    def test_sessions_go_on(self):
        shard, _, member = mixed_group()
        shard.pass_time(SESSION_MS - 1_000)
        member.leave()
        assert len(shard.classic.members) == 2
        shard.pass_time(1_000)
        assert shard.classic.phase == "Empty"

    def test_the_group_goes_up_and_down_again(self):
        shard, classic, member = mixed_group()
        for _ in range(3):
            member.leave()
            run(*classic, rounds=2)
            run(*classic, member)
            assert kind(shard) == "consumer"
            assert reading([*classic, member]) == sorted(shard.topics.partitions)

    def test_all_members_leave(self):
        shard, classic, member = mixed_group()
        assert shard.leave(*(Leaver(member_id=one.member_id) for one in classic)) == [None, None]
        member.leave()
        assert (kind(shard), shard.group.phase) == ("consumer", "Empty")

    def test_silence_of_all_leaves_an_empty_group(self):
        shard, _, _ = mixed_group()
        for _ in range(10):
            shard.pass_time(SESSION_MS)
        group = shard.state.groups.get(GROUP)
        assert group is None or not group.members
        assert GROUP not in shard.state.classic or shard.classic.phase == "Empty"

    def test_a_member_that_stays_silent_after_it_is_removed(self):
        shard, (a, _), member = mixed_group()
        member.leave()
        run(a, rounds=REBALANCE_MS // 1_000, ms=1_000)
        assert (shard.classic.phase, shard.classic.members.keys()) == ("Stable", {a.member_id})
        assert reading([a]) == sorted(shard.topics.partitions)


class TestStaticMembers:
    def test_a_classic_process_is_replaced_by_one_of_the_consumer_protocol(self):
        """Classic static members do not leave, so their place is free for the other protocol at once."""
        shard, (a, b) = _static_pair()
        target = {*a.owned}
        member = Member(shard, "x", wishes={"instance_id": "a"})
        member.beat()
        assert member.owned == target
        assert code_of(shard.beat, a.member_id, a.generation, "a") is ErrorCode.FENCED_INSTANCE_ID
        run(member, b)
        assert reading([member, b]) == sorted(shard.topics.partitions)

    def test_the_last_of_the_consumer_protocol_is_replaced_by_a_classic_process(self):
        shard, (a, b) = _static_pair()
        member = Member(shard, "x", wishes={"instance_id": "a"})
        run(member, b)
        back = a.restart()
        back.step()
        assert kind(shard) == "classic"
        assert code_of(shard.heartbeat, "x", member.epoch, owned=()) is ErrorCode.UNKNOWN_MEMBER_ID
        for epoch in (member.epoch, -2, -1):
            late = code_of(shard.heartbeat, "x", epoch, owned=(), instance_id="a")
            assert late is ErrorCode.FENCED_INSTANCE_ID
        run(back, b)
        assert reading([back, b]) == sorted(shard.topics.partitions)

    def test_a_classic_member_restarts_in_a_group_of_both_kinds(self):
        shard, (a, b) = _static_pair()
        member = Member(shard, "x")
        run(a, b, member)
        target, epoch = {*a.owned}, shard.group.epoch
        again = a.restart()
        run(again, rounds=2)
        assert (again.owned, shard.group.epoch) == (target, epoch)
        assert code_of(shard.beat, a.member_id, a.generation, "a") is ErrorCode.FENCED_INSTANCE_ID
        assert code_of(shard.beat, again.member_id, again.generation, "z") is ErrorCode.UNKNOWN_MEMBER_ID

    def test_two_processes_of_the_consumer_protocol_still_need_a_leave(self):
        shard, (_, b) = _static_pair()
        member = Member(shard, "x", wishes={"instance_id": "a"})
        run(member, b)
        assert code_of(shard.heartbeat, "y", 0, topics=("t",), owned=(), instance_id="a") is (
            ErrorCode.UNRELEASED_INSTANCE_ID
        )


def _static_pair() -> tuple[ClassicShard, list[Consumer]]:
    shard = shard_of(t=6)
    members = [Consumer(shard, instance_id=name) for name in "ab"]
    run(*members)
    return shard, members


class TestOffsets:
    def commit(self, shard: ClassicShard, member: str, epoch: int, partition: int, **more: Any) -> list[Any]:
        entry = CommitOffset(topic="t", partition=partition, offset=7)
        request = OffsetCommitRequest(offsets=(entry,), member_id=member, member_epoch=epoch)
        answer = shard.run(decide_commit, GROUP, request, topics=shard.topics, settings=shard.settings, **more)
        return [one.error and one.error.code for one in answer.offsets]

    def test_both_kinds_commit_in_their_epochs(self):
        shard, (a, _), member = mixed_group()
        (mine, *_), (its, *_) = sorted(a.owned), sorted(member.owned)
        assert self.commit(shard, a.member_id, a.generation, mine.partition) == [None]
        assert self.commit(shard, member.name, member.epoch, its.partition) == [None]
        assert self.commit(shard, a.member_id, a.generation, its.partition) == [ErrorCode.ILLEGAL_GENERATION]
        assert self.commit(shard, member.name, member.epoch, mine.partition) == [ErrorCode.STALE_MEMBER_EPOCH]
        assert code_of(self.commit, shard, a.member_id, a.generation - 1, 0) is ErrorCode.ILLEGAL_GENERATION
        assert code_of(self.commit, shard, "", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
        assert code_of(self.commit, shard, "z", a.generation, 0) is ErrorCode.UNKNOWN_MEMBER_ID
        assert shard.committed(member_id=a.member_id)  # Classic members send no epoch.

    def test_a_member_commits_what_it_gives_up(self):
        shard, (a, _) = classic_group(eager=True)
        before = sorted(a.owned)
        shard.heartbeat("x", 0, topics=("t",), owned=())
        assert code_of(shard.beat, a.member_id, a.generation) is ErrorCode.REBALANCE_IN_PROGRESS
        for partition in before:
            assert self.commit(shard, a.member_id, a.generation, partition.partition) == [None]

    def test_a_commit_keeps_the_session(self):
        shard, (a, _), member = mixed_group()
        for _ in range(4):
            shard.pass_time(SESSION_MS - 2_000)
            self.commit(shard, a.member_id, a.generation, 0)
            member.beat()
        assert a.member_id in shard.group.members


class TestCoordinators:
    @pytest.mark.parametrize("compacted", [False, True])
    @HOW
    def test_the_next_coordinator_goes_on_in_each_step(self, compacted: bool, eager: bool, version: int):
        shard, classic = classic_group(eager=eager, version=version)
        member = Member(shard, "x")
        for _ in range(12):
            for one in (member, *classic):
                one.step() if isinstance(one, Consumer) else one.beat()
                before = (shard.state.groups, shard.state.classic)
                shard.fail_over(compacted=compacted)
                assert (shard.state.groups, shard.state.classic) == before
                assert len(reading([*classic, member])) == len({*reading([*classic, member])})
        assert reading([*classic, member]) == sorted(shard.topics.partitions)
        member.leave()
        shard.fail_over(compacted=compacted)
        run(*classic)
        assert (kind(shard), reading(classic)) == ("classic", sorted(shard.topics.partitions))

    def test_a_conversion_whose_records_were_lost_is_made_again(self):
        shard, classic = classic_group()
        write, shard.write = shard.write, lambda _: None  # type: ignore[method-assign]
        shard.heartbeat("x", 0, topics=("t",), owned=())
        shard.write = write  # type: ignore[method-assign]
        assert kind(shard) == "classic"
        shard.pass_time(1)
        assert shard.state.sessions == {}
        member = Member(shard, "x")
        run(*classic, member)
        assert reading([*classic, member]) == sorted(shard.topics.partitions)


class TestViews:
    def test_a_group_of_both_kinds_is_one_of_the_consumer_protocol(self):
        shard, (a, b), member = mixed_group()
        listed = listing_of(shard.state, GROUP, 1)
        assert (listed.kind, listed.protocol_type, listed.members) == ("consumer", "consumer", 3)
        described = shard.run(decide_description, GROUP, 1)
        assert {one.member_id: one.kind for one in described.members} == {
            a.member_id: "classic",
            b.member_id: "classic",
            member.name: "consumer",
        }
        assert code_of(shard.run, decide_classic_description, GROUP) is ErrorCode.GROUP_ID_NOT_FOUND
