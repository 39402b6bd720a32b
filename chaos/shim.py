"""Failing and slow fsync, and a wall clock that jumps, in a running node: `shim.c`, preloaded into its process.

It needs only a C compiler (libfaketime would do for the clock alone). Each node reads its own file of faults; writing
that file switches a fault on and off.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
LIBRARY = "shim.so"
FAULTS = "faults"


class ShimError(Exception):
    """The shim cannot be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimFaults:
    """The faults of a node's process from now on."""

    sync_errno: int = 0
    sync_slow_ms: int = 0
    clock_shift_s: int = 0

    def __str__(self) -> str:
        return f"{self.sync_errno} {self.sync_slow_ms} {self.clock_shift_s}\n"


FAILING_SYNC = ShimFaults(sync_errno=errno.EIO)


def build(folder: Path) -> Path:
    """Compile the shim into `folder`; return the library.

    Raises:
        ShimError: there is no compiler, or it failed.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ShimError("there is no C compiler (cc)")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / LIBRARY
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise ShimError(f"{compiler} refused {SOURCE.name}: {done.stderr.strip()[:300]}")
    return library


class Shim:
    """The shim of one cluster. Each node's file of faults, `faults`, is in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._library = build(self._folder)

    def around(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command that starts a node with the shim; `--config FILE` follows it, as it follows `command`."""
        file = f'"${{{len(command) + 2}%/*}}/{FAULTS}"'
        return ("sh", "-c", f'LD_PRELOAD="{self._library}" CHAOS_FAULTS={file} exec "$@"', "sh", *command)

    def set(self, node: str, faults: ShimFaults) -> None:
        """Give a node these faults, and no others, from its next call on."""
        file = self._folder / node / FAULTS
        fresh = file.with_suffix(".new")
        fresh.write_text(str(faults), "ascii")
        fresh.replace(file)

    def clear(self, node: str) -> None:
        self.set(node, ShimFaults())
