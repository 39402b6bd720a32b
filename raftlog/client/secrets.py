"""Secrets that are kept outside a program's text: in files, or printed by a command."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
from collections.abc import Sequence

from raftlog.errors import ConfigError

_log = logging.getLogger(__name__)
COMMAND_TIMEOUT_S = 60.0
"""How long a command may take: it may ask the user for a key."""
_MOST_BYTES = 64 << 10
_DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
_piped: dict[int, bytes] = {}
"""What pipes of the shell held, by inode: a second reader finds them empty."""
_warned: set[str] = set()
"""Files that were reported: one for each setting of a program, so they are few."""


def read_secret(path: str, setting: str) -> str:
    """Return the one line in a file.

    Raises:
        ConfigError: the file cannot be read, is empty, or has several lines. The message never holds its content.
    """
    warn_if_readable_by_others(path)
    try:
        content = content_of(path, _MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {error.strerror}") from error
    return _only_line(content, f"{setting}: {path}")


def content_of(path: str, most_bytes: int) -> bytes:
    """Return the first bytes of a secret's file. A pipe of the shell, `<(command)`, is read once for all clients.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123  (a pipe of the shell has a name such as /dev/fd/63)
        if not path.startswith(_DESCRIPTORS):
            return file.read(most_bytes)
        found = os.fstat(file.fileno())
        if not stat.S_ISFIFO(found.st_mode):
            return file.read(most_bytes)
        if (content := _piped.get(found.st_ino, b"")) == b"":
            content = _piped[found.st_ino] = file.read(most_bytes)
        return content


def run_secret_command(command: Sequence[str], setting: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Return the one line that a command prints. It gets no standard input, and shares the terminal for its messages.

    Raises:
        ConfigError: the command fails, or prints no line or several. The message never holds its output.
    """
    what = f"{setting}: {command[0]}"
    try:
        done = subprocess.run(  # noqa: S603  (the user's own configuration names it)
            list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=timeout_s, check=False
        )
    except OSError as error:
        raise ConfigError(f"{what} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        timed_out = True
    else:
        timed_out = False
    if timed_out:  # Outside the handler: its exception holds the output.
        raise ConfigError(f"{what} did not exit within {timeout_s:g} s")
    if done.returncode != 0:
        raise ConfigError(f"{what} failed with exit code {done.returncode}: run it in a shell to see why")
    return _only_line(done.stdout[: _MOST_BYTES + 1], f"{what}, its output")


def _only_line(content: bytes, what: str) -> str:
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{what}: expected one line, received more than {_MOST_BYTES} bytes")
    text = content.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    if "\ufffd" in text:
        raise ConfigError(f"{what}: expected text in UTF-8")
    if not text:
        raise ConfigError(f"{what}: expected one line, received none")
    if "\n" in text or "\r" in text:
        raise ConfigError(f"{what}: expected one line, received several")
    return text


def warn_if_readable_by_others(path: str) -> None:
    """Log a warning, once in a process, if every user of the machine may read a secret file."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  (see `read_secret`)
    except OSError:
        return  # Whatever reads the file reports it.
    if stat.S_ISREG(mode) and mode & stat.S_IROTH and path not in _warned:
        _warned.add(path)
        _log.warning("%s: every user of this machine can read this secret; run: chmod 600 %s", path, path)
