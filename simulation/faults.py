"""The faults that can happen at any time, and their duration."""

from __future__ import annotations

from collections.abc import Callable

from simulation.world import World


class Faults:
    """Faults that begin, and end after some steps. The world's dice draw everything that varies."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.step = 0
        self.alone: str | None = None
        """The only voter that ticks, if one does: only it can begin an election, or replicate."""
        self.quiet = False
        """No voter proposes."""
        self.scripted = False
        """While a scheme runs, there are few other faults."""
        self._later: list[tuple[int, Callable[[], None]]] = []

    def after(self, shortest: int, longest: int, action: Callable[[], None]) -> None:
        self._later.append((self.step + self.random.randint(shortest, longest), action))

    def run_due(self) -> None:
        due = [action for step, action in self._later if step <= self.step]
        self._later = [item for item in self._later if item[0] > self.step]
        for action in due:
            action()

    # Voters and disks.

    def do_crash(self) -> None:
        if len(self.world.engines) > len(self.world.names) // 2:
            self.world.crash(self.random.choice(sorted(self.world.engines)), power=self.random.random() < 0.5)

    def do_power_loss(self) -> None:
        """A voter loses its power at one of its next disk operations."""
        if len(self.world.engines) > len(self.world.names) // 2:
            name = self.random.choice(sorted(self.world.engines))
            self.world.note(f"power of {name} will fail")
            self.world.disk.light_fuse(name, self.random.randint(1, 8), "power")

    def do_last_words(self) -> None:
        """A voter dies in the middle of a sync; what it has sent arrives; it restarts before its leader notices."""
        world = self.world
        if self.scripted or len(world.engines) < len(world.names):
            return
        name, leader = self.random.choice(world.names), world.leader()
        world.note(f"last words of {name}")
        world.disk.light_fuse(name, self.random.randint(1, 3), "power")
        self.after(1, 12, lambda: self._restart(name))
        if leader is not None and leader != name:
            self.after(2, 14, lambda: world.crash(leader, power=True) if leader in world.engines else None)
            self.after(20, 60, lambda: self._restart(leader))

    def do_disk_error(self) -> None:
        if len(self.world.engines) > len(self.world.names) // 2:
            name = self.random.choice(sorted(self.world.engines))
            self.world.note(f"disk of {name} will fail")
            self.world.disk.light_fuse(name, self.random.randint(1, 8), "error")

    def do_blackout(self) -> None:
        if self.random.random() < 0.3:
            for name in sorted(self.world.engines):
                self.world.crash(name, power=True)
            for name in self.world.names:
                self.after(1, 10, lambda name=name: self._restart(name))  # type: ignore[misc]

    def do_wipe(self) -> None:
        """Replace a disk: of one voter at a time, and perhaps again before it has caught up."""
        again = bool(self.world.not_full)
        chosen = sorted(self.world.not_full & self.world.engines.keys() if again else self.world.engines)
        if not chosen or len(self.world.not_full) > 1 or (again and self.random.random() < 0.7):
            return
        name = self.random.choice(chosen)
        self.world.wipe(name)
        self.after(0, 20, lambda: self._restart(name))

    def do_restart(self) -> None:
        if down := sorted(set(self.world.names) - set(self.world.engines)):
            self.world.start(self.random.choice(down))

    def _restart(self, name: str) -> None:
        if name not in self.world.engines:
            self.world.start(name)

    def do_pause(self) -> None:
        if awake := self.world.awake():
            name = self.random.choice(awake)
            self.world.note(f"pause {name}")
            self.world.paused.add(name)
            self.after(2, 40, lambda: self.world.paused.discard(name))

    def do_compact(self) -> None:
        if self.world.engines:
            name = self.random.choice(sorted(self.world.engines))
            self.world.note(f"compact {name}")
            self.world.engines[name].forceLogCompaction()

    def do_alone(self) -> None:
        if self.scripted:
            return
        self._let_tick_alone(self.random.choice(self.world.names))
        self.after(5, 30, lambda: None if self.scripted else self._let_tick_alone(None))

    def _let_tick_alone(self, name: str | None) -> None:
        self.world.note(f"ticking: {name or 'all'}")
        self.alone = name

    # The network.

    def do_cut(self) -> None:
        one, other = self.random.sample(self.world.names, 2)
        self.world.note(f"cut {one} {other}")
        self.world.network.part(one, other)
        self.after(1, 60, lambda: self.world.network.rejoin(one, other))

    def do_mend(self) -> None:
        network = self.world.network
        self.world.note("mend")
        for pair in sorted(network.cut, key=sorted):
            network.rejoin(*sorted(pair))
        network.dropping.clear()
        network.slow.clear()

    def do_drop(self) -> None:
        links = set(self.random.sample(self.world.network.pairs, self.random.randint(1, 2)))
        self.world.note(f"drop {sorted(links)}")
        self.world.network.dropping |= links
        self.after(1, 30, lambda: self.world.network.dropping.difference_update(links))

    def do_hold(self) -> None:
        links = set(self.random.sample(self.world.network.pairs, self.random.randint(1, 3)))
        self.world.note(f"hold {sorted(links)}")
        self.world.network.held |= links
        self.after(3, 80, lambda: self.world.network.held.difference_update(links))

    def do_slow(self) -> None:
        self.world.network.slow = set(self.random.sample(self.world.network.pairs, self.random.randint(0, 3)))
        self.world.note(f"slow {sorted(self.world.network.slow)}")

    # The leader.

    def do_isolate_leader(self) -> None:
        """Cut the leader off, with or without a notice to the voters, and propose entries at it."""
        leader = self.world.leader()
        if leader is None:
            return
        self.world.note(f"isolate {leader}")
        self._split({leader})
        self._burst(leader)

    def do_partition(self) -> None:
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
                self.world.network.part(one, other)
                self.after(10, 60, lambda one=one, other=other: self.world.network.rejoin(one, other))  # type: ignore[misc]
            return
        if kind != "drop":
            links = {link for link in links if (link[0] in some) == (kind == "drop out")}
        self.world.network.dropping |= links
        self.after(10, 60, lambda: self.world.network.dropping.difference_update(links))

    def _burst(self, name: str, least: int = 0) -> None:
        for _ in range(self.random.randint(least, 10)):
            if name in self.world.believers():
                self.world.propose(name)
