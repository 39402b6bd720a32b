"""Runs every contestant round by round, each trial in a client process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.drivers.shape import Job, cpu_s
from benchmarks.peers.contestants import Contestant, Work
from benchmarks.peers.server import PeerError, Server

_FILL_TOPIC = "filled"
_FILL_TIMES = 8
"""The factor by which this trial writes longer than others: reading is faster."""
_TRIAL_GRACE_S = 120
_SETTLE_S = 0.3
_IDLE_S = 3.0
_MOST_STOLEN = 0.03
_ATTEMPTS = 3
"""How often to measure while a virtual machine's host takes a larger share than that."""

Say = Callable[[str], None]
Key = tuple[str, str]
"""A work and a contestant, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to measure."""

    works: Sequence[Work]
    contestants: Sequence[Contestant]
    rounds: int
    warmup_rounds: int
    seconds: float
    warmup_s: float
    partitions: int
    max_bytes: int
    tls: bool = False


@dataclass(slots=True)
class Table:
    """The measurements with one durability."""

    samples: dict[Key, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """Round by round, the output of the driver."""
    errors: list[str] = field(default_factory=list)
    servers: dict[str, dict[str, object]] = field(default_factory=dict)
    """Settings by system, among them the share of a core that it uses when idle."""


class Trials:
    """All trials with one durability: every cluster runs from the first round to the last."""

    def __init__(
        self, plan: Plan, servers: Mapping[str, type[Server]], *, durable: bool, folder: Path, say: Say
    ) -> None:
        self._plan = plan
        self._classes = servers
        self._durable = durable
        self._folder = folder
        self._say = say
        self._servers: dict[str, Server] = {}
        self._filled: dict[str, int] = {}
        self._count = 0
        self.table = Table()

    def run(self) -> Table:
        with ExitStack() as stack:
            self._start(stack)
            self._measure_idle()
            total = self._plan.warmup_rounds + self._plan.rounds
            for number in range(total):
                warming = number < self._plan.warmup_rounds
                self._say(f"round {number + 1} of {total}{', to warm up' if warming else ''}")
                self._round(number, keep=not warming)
        return self.table

    def _start(self, stack: ExitStack) -> None:
        for name, cls in self._classes.items():
            self._say(f"starting {name}")
            try:
                server = cls(self._folder / name, durable=self._durable)
                server.tls = self._plan.tls
                self._servers[name] = stack.enter_context(server)
            except (PeerError, OSError) as error:
                self._fail(f"{name} does not start: {error}")
            else:
                self.table.servers[name] = dict(self._servers[name].settings)

    def _measure_idle(self) -> None:
        """Measure the cost of idle clusters: they run beside the one that is measured."""
        before = {name: cpu_s(server.pids) for name, server in self._servers.items()}
        time.sleep(_IDLE_S)
        for name, server in self._servers.items():
            share = (cpu_s(server.pids) - before[name]) / _IDLE_S
            self.table.servers[name]["idle_cpu_percent"] = round(100 * share, 1)

    def _round(self, number: int, *, keep: bool) -> None:
        for work in self._plan.works:
            able = [contestant for contestant in self._plan.contestants if self._can(contestant, work)]
            first = number % max(1, len(able))  # Each contestant follows different ones.
            for contestant in able[first:] + able[:first]:
                if (result := self._trial(work, contestant, attempts=_ATTEMPTS if keep else 1)) is not None and keep:
                    self.table.samples[work.name, contestant.name].append(result)

    def _can(self, contestant: Contestant, work: Work) -> bool:
        return contestant.server in self._servers and contestant.does(work, durable=self._durable)

    def _trial(self, work: Work, contestant: Contestant, *, attempts: int) -> dict[str, Any] | None:
        """Return the measurements while the host took least; None if the client failed."""
        best: dict[str, Any] | None = None
        for _ in range(attempts):
            if (result := self._once(work, contestant)) is None:
                break
            stolen = f", the host took {result['stolen_share']:.0%}" if result["stolen_share"] > _MOST_STOLEN else ""
            self._say(f"  {work.name:20} {contestant.name:26} {result[work.unit]:>14,.6g} {work.unit}{stolen}")
            if best is None or result["stolen_share"] < best["stolen_share"]:
                best = result
            if not stolen:
                break
        return best

    def _once(self, work: Work, contestant: Contestant) -> dict[str, Any] | None:
        consuming = work.job["work"] == "consume"
        if consuming and contestant.server not in self._filled:
            long = {"warmup_s": 0.0, "seconds": self._plan.seconds * _FILL_TIMES}
            filled = self._run(contestant, self._job(work, contestant, topic=_FILL_TOPIC, work="fill", **long))
            self._filled[contestant.server] = 0 if filled is None else filled["records"]
        self._count += 1
        topic = _FILL_TOPIC if consuming else f"trial-{self._count}"
        job = self._job(work, contestant, topic=topic, records=self._filled.get(contestant.server, 0))
        result = self._run(contestant, job)
        os.sync()  # Pending writes must not slow the next trial.
        time.sleep(_SETTLE_S)
        return result

    def _job(self, task: Work, contestant: Contestant, **more: Any) -> Job:
        server, plan = self._servers[contestant.server], self._plan
        return Job(
            bootstrap=server.bootstrap,
            partitions=plan.partitions,
            max_bytes=plan.max_bytes,
            durable=self._durable,
            server_pids=tuple(server.pids),
            options={**contestant.options, **server.client_options},
            **{"seconds": plan.seconds, "warmup_s": plan.warmup_s, **task.job, **more},
        )

    def _run(self, contestant: Contestant, job: Job) -> dict[str, Any] | None:
        server = self._servers[contestant.server]
        command = [
            str(server.python),
            "-m",
            f"benchmarks.drivers.{contestant.driver}",
            json.dumps(dataclasses.asdict(job)),
        ]
        timeout_s = job.seconds + job.warmup_s + _TRIAL_GRACE_S
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
                env={**os.environ, **server.environment},
            )
        except subprocess.TimeoutExpired:
            self._fail(f"{contestant.name} did not finish its {job.work} job within {timeout_s:g} s")
            return None
        if done.returncode != 0:
            self._fail(f"{contestant.name} failed at its {job.work} job: {done.stderr[-2_000:]}")
            return None
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    def _fail(self, what: str) -> None:
        self._say(f"ERROR {what}")
        self.table.errors.append(what)
