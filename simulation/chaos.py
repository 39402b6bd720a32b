"""Which faults happen in a world, and when."""

from __future__ import annotations

from simulation.schemes import Schemes
from simulation.world import World

SCHEMES = ("overhang", "relapse", "replace", "amnesia", "overtake")
FAULTS = (
    "crash",
    "power_loss",
    "last_words",
    "disk_error",
    "blackout",
    "wipe",
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
    *SCHEMES,
)
FAULT_RATE = 0.15


class Chaos(Schemes):
    """Lets time pass unevenly: only some voters tick, messages are late, and faults begin and end."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # Some worlds repeat one scheme, or one fault, and have few others.
        focus = self.random.choice((*SCHEMES, "last_words", None))
        weights = (0.1, 1.0, 1.0, 3.0) if focus is None else (0.0, 0.0, 0.5)
        self._weights = [30.0 if name == focus else self.random.choice(weights) for name in FAULTS]
        self._born_apart = self.random.random() < (0.5 if focus == "replace" else 0.05)

    def run(self, steps: int) -> None:
        if self._born_apart:
            self.be_born_apart()
        for self.step in range(steps):
            self.world.now += self.random.choice((0.005, 0.02, 0.05, 0.15))
            self.run_due()
            self.world.rot.step()
            if self.random.random() < (FAULT_RATE / 5 if self.scripted else FAULT_RATE):
                (fault,) = self.random.choices(FAULTS, self._weights)
                getattr(self, f"do_{fault}")()
            self._propose(self.random.choice((0, 0, 0, 1, 4)))
            self._tick()
            self._deliver()

    def _propose(self, count: int) -> None:
        """Propose at every voter that believes to lead: a deposed leader's entries make conflicts."""
        if self.quiet:
            return
        for _ in range(count):
            if believers := self.world.believers():
                self.world.propose(self.random.choice(believers))

    def _tick(self) -> None:
        awake = self.world.awake()
        chosen = self.random.sample(awake, self.random.randint(0, len(awake)))
        if self.alone in awake:
            chosen = [self.alone]
        for name in chosen:
            if name in self.world.engines:
                self.world.tick(name)

    def _deliver(self) -> None:
        network = self.world.network
        for link in self.random.sample(network.pairs, len(network.pairs)):
            if link in network.held or not network.links[link] or (link in network.slow and self.random.random() < 0.9):
                continue
            self.world.deliver(link, self.random.choice((0, 1, 1, 2, 5)))
