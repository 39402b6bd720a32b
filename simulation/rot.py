"""Bits that change in what voters have stored, while they are down and while they run; and their repair.

Half of the worlds rot, drawn by dice of their own: the others do not change. Most of them damage at most a minority at
once, a third of them any number. Checked: a voter starts with exactly what its files contained before the damage, or
refuses and changes nothing; files are intact after a scrub; a voter without damage never refuses.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft.journal import Entry, RaftJournal
from raftlog.metadata_quorum.raft.scrub import JOURNAL, SNAPSHOT

if TYPE_CHECKING:
    from simulation.world import World

FEATURE = "rot"
"""Its name in `WITHOUT`."""
TAIL_BYTES = 40
Stored = tuple[list[Entry], int, str | None, str]
"""Entries, term, vote and standing."""


class Rot:
    """The rot of one world. It has dice of its own."""

    def __init__(self, world: World, seed: int, without: tuple[str, ...] = ()) -> None:
        self._world = world
        self._disk = world.disk
        self._dice = dice = random.Random(f"what rots in {seed}")  # noqa: S311  (a schedule, not a secret)
        voters = len(world.names)
        self.happens = dice.random() < 0.5 and FEATURE not in without
        self._at_once = dice.choice(((voters - 1) // 2, (voters - 1) // 2, voters))
        self._rate = dice.choice((0.01, 0.03, 0.1))
        self.refusing: set[str] = set()
        """Voters that refused to start because their files are damaged."""
        self.damages = self.refusals = 0

    def step(self) -> None:
        """Perhaps damage a file, scrub a voter's files, and repair a voter that refuses to start."""
        if not self.happens:
            return
        if self._dice.random() < self._rate and len(self.damaged()) < self._at_once:
            self._damage(self._dice.choice(self._world.names))
        if self._dice.random() < self._rate / 4 and (awake := self._world.awake()):
            self.scrub(self._dice.choice(awake))
        if self.refusing and self._dice.random() < 0.1:
            name = self._dice.choice(sorted(self.refusing))
            self.repair(name)
            self._world.start(name)

    def damaged(self) -> set[str]:
        """Return voters with a changed bit in their files."""
        return {name for name in self._world.names if any(map(self._disk.flips.concern, self._files(name)))}

    def unable(self) -> set[str]:
        """Return voters that are down, and will not start by themselves."""
        return self.damaged() - self._world.engines.keys()

    def _files(self, name: str) -> list[Path]:
        folder = self._world.disk_of(name)
        return [path for path in (folder / JOURNAL, folder / SNAPSHOT) if path.exists()]

    def _damage(self, name: str) -> None:
        world, dice = self._world, self._dice
        if name in world.engines and dice.random() < 0.6:
            world.crash(name, power=dice.random() < 0.5)
        if not (files := self._files(name)):
            return
        path = dice.choice(files)
        size = 8 * path.stat().st_size
        # Anywhere, or in the last records: damage at the end of a log looks like a torn write.
        first = dice.choice((0, 0, max(0, size - 8 * TAIL_BYTES)))
        bits = {dice.randrange(first, size) for _ in range(dice.choice((1, 1, 2, 5, 20)))}
        self._flip(name, path, bits)

    def _flip(self, name: str, path: Path, bits: set[int]) -> None:
        size = 8 * path.stat().st_size
        self._world.note(f"{len(bits)} bits change in the {path.name} of {name}, from {min(bits)} of {size} on")
        self.damages += 1
        for bit in sorted(bits):
            self._disk.flips.flip(path, bit)

    def damage_snapshots(self) -> str:
        """Have all voters compact their logs, change a bit of each snapshot, and return a voter to catch up."""
        world = self._world
        for engine in world.engines.values():
            engine.forceLogCompaction()
        world.run(0.2)
        for name in world.names:
            if (snapshot := world.disk_of(name) / SNAPSHOT).exists():
                self._flip(name, snapshot, {self._dice.randrange(8 * snapshot.stat().st_size)})
        return self._dice.choice(world.names)

    # At the start of a voter.

    @contextmanager
    def judging(self, name: str) -> Iterator[None]:
        """Watch a voter's start: it has what it had stored, or refuses."""
        damaged, before = name in self.damaged(), self._contents(name)
        stored = self._stored(name) if damaged else None
        try:
            yield
        except StorageError as error:
            self._judge_refusal(name, error, damaged=damaged, before=before)
            return
        self.refusing.discard(name)
        if stored is not None:
            self._judge_start(name, stored)

    def _judge_refusal(self, name: str, error: StorageError, *, damaged: bool, before: list[bytes]) -> None:
        world = self._world
        if not damaged:
            world.promises.fail(f"{name} does not start, though its files are intact: {error}")
        if self._contents(name) != before:
            world.promises.fail(f"{name} refuses its files, and has changed them")
        world.note(f"{name} refuses to start")
        world.network.leave(name)
        self.refusing.add(name)
        self.refusals += 1

    def _judge_start(self, name: str, stored: Stored) -> None:
        world, folder = self._world, self._world.disk_of(name)
        entries, *facts = stored
        log = world.engines[name].log()
        known = [log.getCurrentTerm(), log.getVotedForNodeId(), log.standing]
        if (entries and log[:] != entries) or known != facts:
            world.promises.fail(f"{name} started from a damaged journal, with other content than it had stored")
        if self._disk.flips.concern(folder / SNAPSHOT):
            world.promises.fail(f"{name} started from a damaged snapshot")
        self._disk.flips.taken((folder / JOURNAL).stat().st_ino)  # They were in a torn tail, which is truncated.

    def _contents(self, name: str) -> list[bytes]:
        return [path.read_bytes() for path in self._files(name)]

    def _stored(self, name: str) -> Stored:
        """Return what a voter would find without the changed bits."""
        folder = self._world.folder / "undamaged"
        folder.mkdir(exist_ok=True)
        (folder / JOURNAL).write_bytes(self._disk.flips.undone(self._world.disk_of(name) / JOURNAL))
        journal = RaftJournal(folder / JOURNAL)
        journal.abandon()
        self._disk.wipe(folder)
        return journal[:], journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.standing

    def explains(self, name: str, reason: str) -> bool:
        """Return whether a voter exited because of a snapshot that was damaged after the check at its start."""
        snapshot = self._world.disk_of(name) / SNAPSHOT
        return reason.startswith("cannot load the snapshot") and self._disk.flips.concern(snapshot)

    # Repair.

    def scrub(self, name: str) -> None:
        """Have a voter scrub its files: afterwards they are intact."""
        world = self._world
        world.note(f"scrub {name}")
        engine = world.engines[name]

        def look() -> None:
            engine.repair_files()

        world.act(name, look)
        if name not in world.engines or name in self._disk.failed or engine.last_applied <= 1:
            return
        if name in self.damaged():
            world.promises.fail(f"{name} has scrubbed its files, and a changed bit is left in them")

    def repair(self, name: str) -> None:
        """Repair as an operator would: replace the disk if all other voters can be asked, or restore its files."""
        world = self._world
        self.refusing.discard(name)
        alone = len(world.engines) == len(world.names) - 1 and world.not_full <= {name}
        if alone and self._dice.random() < 0.5:
            if entries := self._stored(name)[0]:
                world.promises.forgets(name, entries)
            world.replace_disk(name)
            return
        world.note(f"the files of {name} are restored")
        for path in self._files(name):
            self._disk.flips.undo(path)
