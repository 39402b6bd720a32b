"""Bits that have changed on a disk: their files and positions, and the files' content without the change."""

from __future__ import annotations

from pathlib import Path


class Flips:
    """The changed bits of all files, by inode and byte. A file that is replaced or truncated loses its own."""

    def __init__(self) -> None:
        self._masks: dict[int, dict[int, int]] = {}

    def flip(self, path: Path, bit: int) -> None:
        """Change one bit; a second call restores it."""
        self._change(path, {bit // 8: 1 << bit % 8})
        masks = self._masks.setdefault(path.stat().st_ino, {})
        masks[bit // 8] = masks.get(bit // 8, 0) ^ 1 << bit % 8
        if not masks[bit // 8]:
            del masks[bit // 8]

    def concern(self, path: Path) -> bool:
        """Return whether the file contains a changed bit."""
        return path.exists() and bool(self._masks.get(path.stat().st_ino))

    def undone(self, path: Path) -> bytes:
        """Return the file's content without the changes."""
        content = bytearray(path.read_bytes())
        for at, mask in self._masks.get(path.stat().st_ino, {}).items():
            content[at] ^= mask
        return bytes(content)

    def undo(self, path: Path) -> None:
        """Restore every changed bit."""
        self._change(path, self.taken(path.stat().st_ino))

    def taken(self, inode: int) -> dict[int, int]:
        """Remove and return a file's changed bits."""
        return self._masks.pop(inode, {})

    def given(self, inode: int, masks: dict[int, int]) -> None:
        """Record that a file was written with changed bits in it."""
        self._masks[inode] = masks

    def lost(self, inode: int, start: int, end: int) -> None:
        """Remove the changed bits of a file's bytes from `start` to `end`, which are gone."""
        masks = self._masks.get(inode, {})
        self._masks[inode] = {at: mask for at, mask in masks.items() if not start <= at < end}

    def _change(self, path: Path, masks: dict[int, int]) -> None:
        with path.open("r+b") as file:  # In place: a process may have the file open.
            content = bytearray(file.read())
            for at, mask in masks.items():
                content[at] ^= mask
            file.seek(0)
            file.write(content)
