"""The members of a group as processes: they join, leave, are killed and are stopped, as a seed decides."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

import orjson

from chaos.group_history import GroupHistory
from chaos.group_member import Orders

FEWEST, MOST = 3, 4
SESSION_TIMEOUT_MS = 2_000
SLEEP_S = (0.3, 4.0)
"""How long a member is stopped: shorter or longer than its session timeout."""
END_WITHIN_S = 15.0
KINDS = ("kill", "leave", "sleep", "join")


class Crowd:
    """Keeps three or four members running. Use as an async context manager; leaving it stops them in order.

    Args:
        orders: the arguments of every member; its own name, seed and so on are filled in.
    """

    def __init__(self, orders: Orders, folder: Path, *, note: Callable[[str], None]) -> None:
        self.counts: Counter[str] = Counter()
        self._orders, self._folder, self._note = orders, folder, note
        self._dice = random.Random(orders.seed)
        self._alive: dict[str, subprocess.Popen[bytes]] = {}
        self._asleep: set[str] = set()
        self._names: list[str] = []
        self.broken: list[str] = []
        """Members that exited by themselves, or not as they should after SIGTERM. Others took over their partitions."""

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        for _ in range(FEWEST):
            self._join()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.wake()
        await asyncio.gather(*(self._end(name, signal.SIGTERM) for name in list(self._alive)))

    async def disturb(self, seconds: float) -> None:
        """Do one thing to one member, within so many seconds; then start missing members."""
        await asyncio.sleep(self._dice.uniform(0, seconds))
        for name in [name for name, process in self._alive.items() if process.poll() is not None]:
            await self._end(name, signal.SIGTERM)
            self._join()
        kind, victim = self._dice.choice(KINDS), self._dice.choice(list(self._alive))
        self.counts[f"{kind} member"] += 1
        if kind == "join":
            victim = self._join()
        self._note(f"{kind}: {victim}")
        if kind == "kill":
            await self._end(victim, signal.SIGKILL)
        elif kind == "leave":
            await self._end(victim, signal.SIGTERM)
        elif kind == "sleep":
            await self._sleep(victim, self._dice.uniform(*SLEEP_S))
        while len(self._alive) < FEWEST:
            self._join()
        if len(self._alive) > MOST:
            await self._end(next(iter(self._alive)), signal.SIGTERM)  # The member that has run longest.

    def wake(self) -> None:
        """Continue every stopped member."""
        for name in self._asleep:
            self._alive[name].send_signal(signal.SIGCONT)
        self._asleep.clear()

    def write_into(self, history: GroupHistory) -> None:
        """Add what all members, killed ones too, wrote to the history."""
        for name in self._names:
            file = self._folder / f"{name}.jsonl"
            if file.exists():
                with file.open("rb") as lines:
                    history.add_member(lines)

    def _join(self) -> str:
        name = f"member-{len(self._names) + 1}"
        self._names.append(name)
        orders = replace(
            self._orders,
            name=name,
            automatic=len(self._names) % 3 == 0,
            seed=self._dice.getrandbits(32),
            file=str(self._folder / f"{name}.jsonl"),
        )
        command = [sys.executable, "-m", "chaos.group_member", orjson.dumps(asdict(orders)).decode()]
        root = Path(__file__).parents[1]
        with (self._folder / f"{name}.txt").open("wb") as log:
            self._alive[name] = subprocess.Popen(
                command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, stdout=log, stderr=log
            )
        return name

    async def _sleep(self, name: str, seconds: float) -> None:
        self._alive[name].send_signal(signal.SIGSTOP)
        self._asleep.add(name)
        await asyncio.sleep(seconds)
        self.wake()

    async def _end(self, name: str, how: signal.Signals) -> None:
        process = self._alive.pop(name)
        if how is signal.SIGTERM:
            await self._until_started(name, process)
        if process.poll() is not None:
            self.broken.append(f"{name} exited by itself with {process.returncode}")
            return
        process.send_signal(how)
        try:
            await asyncio.to_thread(process.wait, END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.broken.append(f"{name} has not exited within {END_WITHIN_S:g} s of {how.name}")
            process.kill()
            await asyncio.to_thread(process.wait, END_WITHIN_S)
            return
        if how is signal.SIGTERM and process.returncode != 0:
            self.broken.append(f"{name} exited with {process.returncode} after SIGTERM")

    async def _until_started(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Wait until a member has opened its file: from then on it handles SIGTERM."""
        deadline = time.monotonic() + END_WITHIN_S
        while process.poll() is None and not (self._folder / f"{name}.jsonl").exists() and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
