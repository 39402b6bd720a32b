"""A log's checkpoint file: log start offset, recovery point and high watermark, as of a moment ago."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from raftlog.errors import DamagedDataError
from raftlog.model import Offset
from raftlog.partition.storage.files import read_json, write_json

FILE_NAME = "checkpoint.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint file."""

    log_start_offset: Offset = 0
    recovery_point: Offset = 0
    """All records below it were synced."""
    high_watermark: Offset = 0
    restarts: bool = False
    """The log starts over at its start offset: files of records that are still there belong to the log before."""

    @classmethod
    def load(cls, folder: Path) -> Checkpoint:
        """Read a log's checkpoint; a log without one is new.

        Raises:
            DamagedDataError: it is damaged.
            StorageError: it cannot be read.
        """
        document = read_json(folder / FILE_NAME)
        if document is None:
            return cls()
        start, point, mark = (document.get(name) for name in ("log_start_offset", "recovery_point", "high_watermark"))
        if not (isinstance(start, int) and isinstance(point, int) and isinstance(mark, int) and 0 <= start <= point):
            raise DamagedDataError(f"{folder / FILE_NAME}: expected offsets that grow, received {document}")
        restarts = document.get("restarts") is True
        return cls(log_start_offset=start, recovery_point=point, high_watermark=mark, restarts=restarts)

    def save(self, folder: Path, *, lasting: bool = True) -> None:
        """Replace a log's checkpoint.

        Args:
            lasting: False if the previous checkpoint may reappear after a power loss.

        Raises:
            StorageError: the previous checkpoint is unchanged.
        """
        document = asdict(self)
        if not self.restarts:
            del document["restarts"]
        write_json(folder / FILE_NAME, {"version": 1, **document}, lasting=lasting)
