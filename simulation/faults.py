"""Which faults there are, and when they come: everything here is drawn from the world's dice."""

from __future__ import annotations

from collections.abc import Callable

from simulation.world import World

FAULTS = (
    "crash",
    "power_loss",
    "disk_error",
    "blackout",
    "restart",
    "cut",
    "drop",
    "hold",
    "slow",
    "mend",
    "pause",
    "compact",
    "alone",
    "isolate_leader",
    "partition",
    "overhang",
    "relapse",
)
FAULT_RATE = 0.15
FOCUSES = ("overhang", "relapse")
"""Some worlds see one of these again and again, and little else: each needs several things in a row to go wrong."""


class Chaos:
    """Faults that come, and go again after some steps."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        focus = self.random.choice((*FOCUSES, None, None))
        weights = (0.1, 1.0, 1.0, 3.0) if focus is None else (0.0, 0.0, 0.5)
        self._weights = [30.0 if name == focus else self.random.choice(weights) for name in FAULTS]
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._alone: str | None = None
        """The only voter that ticks, when one does: it alone can begin an election, or replicate."""
        self._scripted = False
        self._quiet = False
        self._step = 0

    def run(self, steps: int) -> None:
        """Let time pass unevenly: some tick, some do not; messages lag; faults come and go."""
        for self._step in range(steps):
            self.world.now += self.random.choice((0.005, 0.02, 0.05, 0.15))
            due = [action for step, action in self._later if step <= self._step]
            self._later = [item for item in self._later if item[0] > self._step]
            for action in due:
                action()
            if self.random.random() < (FAULT_RATE / 5 if self._scripted else FAULT_RATE):
                (fault,) = self.random.choices(FAULTS, self._weights)
                getattr(self, f"_do_{fault}")()
            self._propose(self.random.choice((0, 0, 0, 1, 4)))
            self._tick()
            self._deliver()

    def _propose(self, count: int) -> None:
        """Everybody who believes to lead is asked: a deposed leader's entries make conflicts."""
        if self._quiet:
            return
        for _ in range(count):
            if believers := self.world.believers():
                self.world.propose(self.random.choice(believers))

    def _tick(self) -> None:
        awake = self.world.awake()
        chosen = self.random.sample(awake, self.random.randint(0, len(awake)))
        if self._alone in awake:
            chosen = [self._alone]
        for name in chosen:
            if name in self.world.engines:
                self.world.tick(name)

    def _deliver(self) -> None:
        network = self.world.network
        for link in self.random.sample(network.pairs, len(network.pairs)):
            if link in network.held or not network.links[link] or (link in network.slow and self.random.random() < 0.9):
                continue
            self.world.deliver(link, self.random.choice((0, 1, 1, 2, 5)))

    def _after(self, shortest: int, longest: int, action: Callable[[], None]) -> None:
        self._later.append((self._step + self.random.randint(shortest, longest), action))

    # Voters and disks.

    def _do_crash(self) -> None:
        if len(self.world.engines) > len(self.world.names) // 2:
            self.world.crash(self.random.choice(sorted(self.world.engines)), power=self.random.random() < 0.5)

    def _do_power_loss(self) -> None:
        """At one of the next disk operations."""
        if len(self.world.engines) > len(self.world.names) // 2:
            name = self.random.choice(sorted(self.world.engines))
            self.world.note(f"power of {name} will fail")
            self.world.disk.light_fuse(name, self.random.randint(1, 8), "power")

    def _do_disk_error(self) -> None:
        if len(self.world.engines) > len(self.world.names) // 2:
            name = self.random.choice(sorted(self.world.engines))
            self.world.note(f"disk of {name} will fail")
            self.world.disk.light_fuse(name, self.random.randint(1, 8), "error")

    def _do_blackout(self) -> None:
        if self.random.random() < 0.3:
            for name in sorted(self.world.engines):
                self.world.crash(name, power=True)
            for name in self.world.names:
                self._after(1, 10, lambda name=name: self._restart(name))  # type: ignore[misc]

    def _do_restart(self) -> None:
        if down := sorted(set(self.world.names) - set(self.world.engines)):
            self.world.start(self.random.choice(down))

    def _restart(self, name: str) -> None:
        if name not in self.world.engines:
            self.world.start(name)

    def _do_pause(self) -> None:
        if awake := self.world.awake():
            name = self.random.choice(awake)
            self.world.note(f"pause {name}")
            self.world.paused.add(name)
            self._after(2, 40, lambda: self.world.paused.discard(name))

    def _do_compact(self) -> None:
        if self.world.engines:
            name = self.random.choice(sorted(self.world.engines))
            self.world.note(f"compact {name}")
            self.world.engines[name].forceLogCompaction()

    def _do_alone(self) -> None:
        if self._scripted:
            return
        self._let_tick_alone(self.random.choice(self.world.names))
        self._after(5, 30, lambda: None if self._scripted else self._let_tick_alone(None))

    def _let_tick_alone(self, name: str | None) -> None:
        self.world.note(f"ticking: {name or 'everybody'}")
        self._alone = name

    # The network.

    def _do_cut(self) -> None:
        one, other = self.random.sample(self.world.names, 2)
        self.world.note(f"cut {one} {other}")
        self._cut(one, other)
        self._after(1, 60, lambda: self._mend(one, other))

    def _cut(self, one: str, other: str) -> None:
        self.world.network.cut.add(frozenset((one, other)))
        self.world.network.disconnect(one, other)

    def _mend(self, one: str, other: str) -> None:
        self.world.network.cut.discard(frozenset((one, other)))
        self.world.network.connect(one, other)

    def _do_mend(self) -> None:
        network = self.world.network
        self.world.note("mend")
        for pair in sorted(network.cut, key=sorted):
            self._mend(*sorted(pair))
        network.dropping.clear()
        network.slow.clear()

    def _do_drop(self) -> None:
        links = set(self.random.sample(self.world.network.pairs, self.random.randint(1, 2)))
        self.world.note(f"drop {sorted(links)}")
        self.world.network.dropping |= links
        self._after(1, 30, lambda: self.world.network.dropping.difference_update(links))

    def _do_hold(self) -> None:
        links = set(self.random.sample(self.world.network.pairs, self.random.randint(1, 3)))
        self.world.note(f"hold {sorted(links)}")
        self.world.network.held |= links
        self._after(3, 80, lambda: self.world.network.held.difference_update(links))

    def _do_slow(self) -> None:
        self.world.network.slow = set(self.random.sample(self.world.network.pairs, self.random.randint(0, 3)))
        self.world.note(f"slow {sorted(self.world.network.slow)}")

    # The leader.

    def _do_isolate_leader(self) -> None:
        """Cut the leader off, at once or without anybody noticing, and give it something to be wrong about."""
        leader = self.world.leader()
        if leader is None:
            return
        self.world.note(f"isolate {leader}")
        self._split({leader})
        self._burst(leader)

    def _do_partition(self) -> None:
        some = set(self.random.sample(self.world.names, self.random.randint(1, len(self.world.names) - 1)))
        self.world.note(f"partition {sorted(some)}")
        self._split(some)
        if (leader := self.world.leader()) is not None:
            self._burst(leader)

    def _split(self, some: set[str]) -> None:
        links = set(self.world.network.between(some))
        kind = self.random.choice(("cut", "drop", "drop in", "drop out"))
        if kind == "cut":
            pairs = sorted({tuple(sorted(link)) for link in links})
            for one, other in pairs:
                self._cut(one, other)
                self._after(10, 60, lambda one=one, other=other: self._mend(one, other))  # type: ignore[misc]
            return
        if kind != "drop":
            links = {link for link in links if (link[0] in some) == (kind == "drop out")}
        self.world.network.dropping |= links
        self._after(10, 60, lambda: self.world.network.dropping.difference_update(links))

    def _burst(self, name: str, least: int = 0) -> None:
        for _ in range(self.random.randint(least, 10)):
            if name in self.world.believers():
                self.world.propose(name)

    def _do_overhang(self) -> None:
        """Leave a leader with entries that its successor holds too, and more that nobody else does."""
        leader = self.world.leader()
        if leader not in self.world.believers() or self._scripted:
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

        self._script((2, 8, depose), (15, 35, end))

    def _script(self, *phases: tuple[int, int, Callable[[], None]]) -> None:
        """Do one thing after the other, with few other faults meanwhile."""
        self._scripted, step = True, self._step
        for shortest, longest, phase in phases:
            step += self.random.randint(shortest, longest)
            self._later.append((step, phase))
        self._later.append((step, lambda: setattr(self, "_scripted", False)))

    def _do_relapse(self) -> None:
        """Depose a leader, let it lead again later, and only then deliver what a follower told it the first time."""
        leader = self.world.leader()
        if leader not in self.world.believers() or self._scripted or len(self.world.names) < 5:
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
            self._quiet = True
            self._let_tick_alone(successor)

        def release() -> None:
            self._quiet = False
            network.dropping |= second
            self._burst(leader, 1)
            network.held.discard(answers)

        def end() -> None:
            network.dropping -= second
            self._let_tick_alone(self.random.choice((None, successor)))
            self._after(5, 30, lambda: self._let_tick_alone(None))

        again = lambda: self._let_tick_alone(leader)  # noqa: E731
        self._script((4, 15, depose), (15, 35, again), (15, 35, release), (5, 20, end))
