"""Files of exported records. A file gets its final name once all of it is on disk."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftlog.client.spans import Span
from raftlog.errors import InvalidRequestError, OffsetOutOfRangeError
from raftlog.model import Offset, TopicPartition
from raftlog.partition.storage.files import read_json, write_json
from raftlog.record.formats import encoder

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = {"parquet": ".parquet", "arrow": ".arrows", "csv": ".csv", "ndjson": ".ndjson"}
GATHERED_BYTES = 8 << 20
"""Bytes rendered at once: a row group of a Parquet file."""
_NEW = ".new"


class NewFile:
    """A file being written under a temporary name. Its methods block: call them in a thread, one at a time."""

    def __init__(self, folder: Path, name: str, form: str, columns: Sequence[str]) -> None:
        self._folder = folder
        self._beside = folder / f".{name}{_NEW}"
        self._encoder = encoder(form, columns)
        self._file = self._beside.open("wb")
        self._file.write(self._encoder.begin())
        self._waiting: dict[TopicPartition, list[pa.Table]] = {}
        self._waiting_bytes = 0
        self.records = 0

    def add(self, partition: TopicPartition, rows: pa.Table) -> None:
        """Add rows of `READ_SCHEMA`."""
        if rows.num_rows:
            self._waiting.setdefault(partition, []).append(rows)
            self._waiting_bytes += rows.nbytes
            self.records += rows.num_rows
        if self._waiting_bytes >= GATHERED_BYTES:
            self._render()

    def finish(self, name: str) -> Path:
        """Write the rest, sync the file, and rename it."""
        self._render()
        self._file.write(self._encoder.end())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._beside.replace(path := self._folder / name)
        _sync_folder(self._folder)
        return path

    def drop(self) -> None:
        """Remove the incomplete file."""
        self._beside.unlink(missing_ok=True)
        with suppress(OSError):  # Closing flushes buffered rows, which fails on a full disk; they are not needed.
            self._file.close()

    def _render(self) -> None:
        import pyarrow as pa  # noqa: PLC0415  (as everywhere in the command line: once it is needed)

        for partition, tables in self._waiting.items():
            self._file.write(self._encoder.write(*partition, pa.concat_tables(tables)))
        self._waiting, self._waiting_bytes = {}, 0


class ExportFolder:
    """A folder of parts, `TOPIC-PARTITION-FROM-TO.SUFFIX`, each with all records of offsets [FROM, TO).

    A hidden file stores topic and format: a later run must match them to continue.
    """

    def __init__(self, path: Path, topic: str, form: str, settings: dict[str, Any]) -> None:
        self.path = path
        self._topic = topic
        self._suffix = SUFFIXES[form]
        self._asked = {**settings, "topic": topic, "format": form}
        self._name = re.compile(rf"{re.escape(topic)}-(\d+)-(\d+)-(\d+){re.escape(self._suffix)}")
        self._unfinished = re.compile(rf"\.{re.escape(topic)}-\d+-\d+{re.escape(_NEW)}")

    def open(self, topic_id: str) -> int:
        """Lock the folder for this run; return the lock's descriptor.

        Raises:
            InvalidRequestError: another run writes there, or the folder holds another export.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.path / f".{self._topic}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._require_same(topic_id)
        except BlockingIOError:
            os.close(lock)
            raise InvalidRequestError(f"another export of {self._topic!r} writes into {self.path}") from None
        except BaseException:
            os.close(lock)
            raise
        for beside in self.path.iterdir():
            if self._unfinished.fullmatch(beside.name):  # From a run that was killed; this run holds the lock.
                beside.unlink(missing_ok=True)
        return lock

    def name(self, partition: TopicPartition, start: Offset, end: Offset) -> str:
        """Return the file name of a part."""
        return f"{partition.topic}-{partition.partition}-{start}-{end}{self._suffix}"

    def rest(self, spans: Sequence[Span], *, accept_gaps: bool) -> list[Span]:
        """Return the spans that the existing parts do not cover.

        Raises:
            OffsetOutOfRangeError: records after the last part were deleted before they were exported.
            InvalidRequestError: the existing parts begin above a span, so that its first records would be missing.
        """
        done: dict[int, Offset] = {}
        begun: dict[int, Offset] = {}
        for entry in self.path.iterdir():
            if found := self._name.fullmatch(entry.name):
                number, start, end = map(int, found.groups())
                done[number] = max(end, done.get(number, 0))
                begun[number] = min(start, begun.get(number, start))
        for span in spans:
            first = begun.get(span.partition.partition)
            if first is not None and max(span.start, span.log_start) < first:
                raise InvalidRequestError(
                    f"{span.partition}: the files in {self.path} begin at offset {first}, and now offsets from "
                    f"{max(span.start, span.log_start)} on are to be exported: name another folder"
                )
        return [_behind(span, done.get(span.partition.partition), accept_gaps=accept_gaps) for span in spans]

    def _require_same(self, topic_id: str) -> None:
        path = self.path / f".{self._topic}.export.json"
        settings = {**self._asked, "topic_id": topic_id}
        before = read_json(path)
        if before is None:
            write_json(path, settings)
            return
        for name, now in settings.items():
            if before.get(name) != now:
                raise InvalidRequestError(
                    f"{self.path} holds an export of {self._topic!r} with {name} {before.get(name)!r}, and now it is "
                    f"{now!r}: name another folder"
                )


def _behind(span: Span, done: Offset | None, *, accept_gaps: bool) -> Span:
    if done is None:
        return span
    if done < span.log_start and not accept_gaps:
        raise OffsetOutOfRangeError(
            f"{span.partition}: offsets {done} to {span.log_start - 1} were deleted from the log before they were "
            "exported; pass --accept-gaps to continue without them"
        )
    start = max(done, span.log_start)
    return replace(span, start=start, end=max(start, span.end))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        with suppress(OSError):
            os.close(descriptor)
