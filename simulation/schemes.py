"""Faults that need several events in a row; few histories would have one by chance."""

from __future__ import annotations

from collections.abc import Callable

from simulation.faults import Faults
from simulation.network import Link


class Schemes(Faults):
    """Each is a short story in which the dice decide much."""

    def _script(self, *phases: tuple[int, int, Callable[[], None]]) -> None:
        """Run phases one after another, with few other faults meanwhile."""
        self.scripted, step = True, self.step
        for shortest, longest, phase in phases:
            step += self.random.randint(shortest, longest)
            self._later.append((step, phase))
        self._later.append((step, lambda: setattr(self, "scripted", False)))

    def _leader(self) -> str | None:
        """Return a leader as the target of a scheme, unless a scheme is running."""
        leader = self.world.leader()
        return leader if leader in self.world.believers() and not self.scripted else None

    def do_overhang(self) -> None:
        """Leave a leader with entries that its successor has too, and more that no other voter has."""
        leader = self._leader()
        if leader is None:
            return
        successor = self.random.choice([name for name in self.world.names if name != leader])
        self.world.note(f"overhang of {leader}, before {successor}")
        network = self.world.network
        answers = {pair for pair in network.pairs if pair[1] == leader}
        entries = {pair for pair in network.pairs if pair[0] == leader}
        network.dropping |= answers
        self._burst(leader, 3)

        def depose() -> None:
            network.dropping |= entries
            self._burst(leader, 1)
            self._let_tick_alone(successor)

        def end() -> None:
            network.dropping -= answers | entries
            self._let_tick_alone(None)
            if (new := self.world.leader()) is not None and new != leader:
                self._teach(leader, new)

        self._script((2, 8, depose), (15, 35, end))

    def _teach(self, old: str, new: str) -> None:
        """Send a deposed leader the next one's decisions one message at a time, perhaps as a snapshot."""
        if self.random.random() < 0.5:
            self.world.engines[new].forceLogCompaction()
        for _ in range(self.random.randint(5, 25)):
            self.world.now += 0.02
            for name, link in ((new, (old, new)), (old, (new, old))):
                self.world.deliver(link, 1)
                if name in self.world.awake():
                    self.world.tick(name)

    def do_relapse(self) -> None:
        """Depose a leader, let it lead again later, and only then deliver a follower's answer of the first term."""
        leader = self._leader()
        if leader is None or len(self.world.names) < 5:
            return
        helper, successor, witness, *_ = self.random.sample([name for name in self.world.names if name != leader], 4)
        self.world.note(f"relapse of {leader}, with {helper} and {witness}, after {successor}")
        network, answers = self.world.network, (helper, leader)
        first = set(network.between({leader, helper}))
        second = {pair for pair in network.between({leader}) if witness not in pair and pair != answers}
        network.held.add(answers)
        network.dropping |= first
        self._burst(leader, 3)

        def depose() -> None:
            network.dropping -= first
            self.quiet = True
            self._let_tick_alone(successor)

        def release() -> None:
            self.quiet = False
            network.dropping |= second
            self._burst(leader, 1)
            network.held.discard(answers)

        def end() -> None:
            network.dropping -= second
            self._let_tick_alone(self.random.choice((None, successor)))
            self.after(5, 30, lambda: self._let_tick_alone(None))

        again = lambda: self._let_tick_alone(leader)  # noqa: E731
        self._script((4, 15, depose), (15, 35, again), (15, 35, release), (5, 20, end))

    # An acknowledged entry depends on one voter of a bare majority.

    def do_replace(self) -> None:
        """Replace the disk of a voter that a bare majority needed; the other voters do not have its entries."""
        if (leader := self._leader()) is not None:
            self._forget(leader, self._bare_majority(leader), self._replace)

    def do_amnesia(self) -> None:
        """The same, but that voter's power fails while it compacts its log, with entries not yet applied."""
        if (leader := self._leader()) is not None:
            self._forget(leader, self._bare_majority(leader), self._die_while_compacting)

    def be_born_apart(self) -> None:
        """Separate a new cluster before the rest has any log; a disk is replaced after its first entries."""
        self.world.run(0.05)  # All voters answer each other, and no election timeout has passed.
        group = self._bare_majority(self.random.choice(self.world.names))
        self.world.note(f"born apart: {sorted(group)}")
        apart = set(self.world.network.between(group))
        self.world.network.dropping |= apart
        self.scripted = True

        def go_on() -> None:
            self.scripted = False
            leader = self._leader()
            if leader in group:
                self._forget(leader, group, self._replace)
            self.after(0, 60, lambda: self.world.network.dropping.difference_update(apart))

        self.after(20, 60, go_on)

    def _bare_majority(self, leader: str) -> set[str]:
        others = [name for name in self.world.names if name != leader]
        return {leader, *self.random.sample(others, len(others) // 2)}

    def _forget(self, leader: str, group: set[str], forget: Callable[[str, str], None]) -> None:
        keeper = self.random.choice(sorted(group - {leader}))
        successor = self.random.choice(sorted(set(self.world.names) - group))
        self.world.note(f"{keeper} will forget, of {sorted(group)} led by {leader}, before {successor}")
        dropping = self.world.network.dropping
        apart = set(self.world.network.between(group))
        rest = set(self.world.network.between(group - {keeper}))
        to_keeper = {(name, keeper) for name in group} if self.random.random() < 0.5 else set[Link]()
        dropping |= apart
        self._burst(leader, 3)

        def lose_memory() -> None:
            forget(leader, keeper)
            dropping.difference_update(apart)
            # The rest of the majority reaches no other voter, and sometimes not even the one without a memory.
            dropping.update((rest & apart) | to_keeper)

        def depose() -> None:
            dropping.update(rest)
            if self.random.random() < 0.5:
                self._let_tick_alone(successor)

        def end() -> None:
            dropping.difference_update(rest | apart | to_keeper)
            self._let_tick_alone(None)

        self._script((4, 15, lose_memory), (2, 25, depose), (15, 40, end))

    def do_overtake(self) -> None:
        """Let a follower append entries, and acknowledge them late, one by one, while its leader compacts its log.

        Each of those makes the core send again what follows, by now as a snapshot, after what the follower has.
        """
        if (leader := self._leader()) is None:
            return
        group = self._bare_majority(leader)
        follower = self.random.choice(sorted(group - {leader}))
        self.world.note(f"{follower} will overtake the snapshot of {leader}, of {sorted(group)}")
        network, there, back = self.world.network, (leader, follower), (follower, leader)
        apart = set(network.between(group))
        rest = set(network.between(group - {follower}))
        network.held.add(back)
        self._let_tick_alone(leader)  # The follower does not apply anything.
        self._burst(leader, 1)

        def compact() -> None:
            if leader in self.world.engines:
                self.world.engines[leader].forceLogCompaction()
            self._send_much(leader, follower)
            network.dropping |= apart
            self._send_much(leader, follower)

        def send_again() -> None:
            self.world.deliver(back, self.random.randint(1, 3))
            if leader in self.world.awake():
                self.world.tick(leader)
            network.held.discard(back)
            network.held.add(there)

        def depose() -> None:
            network.held.discard(there)
            self.world.deliver(there, self.random.randint(1, 10))
            if self.random.random() < 0.7:
                network.links[there].clear()  # The messages after the snapshot are lost.
            network.dropping -= apart
            network.dropping |= rest
            self._let_tick_alone(None)

        def end() -> None:
            network.dropping -= rest

        self._script((2, 10, compact), (0, 3, send_again), (2, 8, depose), (10, 30, end))

    def _send_much(self, leader: str, follower: str) -> None:
        """Send several messages, as one tick sends one batch."""
        for _ in range(self.random.randint(1, 4)):
            self._burst(leader, 1)
            if leader in self.world.awake():
                self.world.tick(leader)
            self.world.deliver((leader, follower), 100)

    def _replace(self, _: str, keeper: str) -> None:
        if self.world.not_full or keeper not in self.world.engines:
            return
        self.world.wipe(keeper)
        self.world.start(keeper)

    def _die_while_compacting(self, leader: str, keeper: str) -> None:
        world = self.world
        if leader not in world.believers() or keeper not in world.awake():
            return
        self._burst(leader, 2)
        world.tick(leader)
        world.deliver((leader, keeper), 100)
        world.deliver((keeper, leader), 100)  # Now the leader knows that they are committed, and the keeper does not.
        world.network.links[leader, keeper].clear()
        if leader in world.engines:
            world.tick(leader)
            world.network.links[leader, keeper].clear()
        if keeper not in world.engines:
            return
        world.engines[keeper].forceLogCompaction()
        world.disk.light_fuse(keeper, self.random.randint(1, 6), "power")
        for _ in range(2):
            if keeper in world.engines:
                world.tick(keeper)
        self._restart(keeper)
