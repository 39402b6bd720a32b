"""No log counts as damaged unless its disk has failed or rotted: a restart or a loss of power damages none.

The other checks do not see it. A replica whose log does not open is copied again from a replica in sync, as long as
there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from raftlog.errors import DamagedDataError
from raftlog.partition.replica import Replica
from raftlog.partition.storage.log import PartitionLog
from simulation.cluster.nodes import Node

if TYPE_CHECKING:
    from simulation.cluster.ports import World


class Undamaged:
    """Watches every damage that a broker finds."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bad = set[str]()
        """Nodes whose disks have failed or rotted at any time."""

    def look(self) -> None:
        """Note disks that are bad by now."""
        for node in self._world.brokers:
            self._is_bad(node)

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Receive every damage, as it is found."""
        opened, note_damage = PartitionLog.open.__func__, Replica.note_damage  # type: ignore[attr-defined]

        def open_and_tell(cls: type[PartitionLog], folder: Path, *args: Any, **options: Any) -> PartitionLog:
            try:
                return opened(cls, folder, *args, **options)  # type: ignore[no-any-return]
            except DamagedDataError as error:
                self._found(folder, error.message)
                raise

        def note_and_tell(replica: Replica, offset: int, problem: str) -> None:
            self._found(replica.log.folder, problem)
            note_damage(replica, offset, problem)

        with (
            mock.patch.object(PartitionLog, "open", classmethod(open_and_tell)),
            mock.patch.object(Replica, "note_damage", note_and_tell),
        ):
            yield

    def _found(self, folder: Path, problem: str) -> None:
        node = next((node for node in self._world.brokers if folder.is_relative_to(node.folder)), None)
        if node is not None and node.running and not self._is_bad(node):
            self._world.watch.on_internal_error(f"{node.name}, whose disk is intact, calls a log damaged: {problem}")

    def _is_bad(self, node: Node) -> bool:
        disk = self._world.disks.by_host[node.host]
        if node.rotten or node.spotted or disk.failed_once or disk.dropped or disk.unreadable:
            self._bad.add(node.name)
        return node.name in self._bad
