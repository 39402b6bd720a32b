"""The connections between processes, as the kernel reports them: proof that no link bypasses its proxy."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from raftlog.model import Address

_ESTABLISHED = "01"


def direct_connections(pids: Mapping[str, int], listeners: Mapping[str, list[Address]]) -> list[str]:
    """Return connections that one of these processes, or this one, opened directly to another's listener."""
    owners = {str(address): name for name, addresses in listeners.items() for address in addresses}
    remotes = dict(_established())
    found = []
    for name, pid in [*pids.items(), ("client", os.getpid())]:
        for inode in _sockets(pid):
            target = owners.get(remotes.get(inode, ""))
            if target not in (None, name):
                found.append(f"{name} -> {target} at {remotes[inode]}")
    return sorted(found)


def _established() -> Iterator[tuple[str, str]]:
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == _ESTABLISHED:
            yield fields[9], _address(fields[2])


def _address(text: str) -> str:
    host, port = text.split(":")
    return f"{socket.inet_ntoa(struct.pack('<I', int(host, 16)))}:{int(port, 16)}"


def _sockets(pid: int) -> Iterator[str]:
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:  # The process closed it after it was listed.
            continue
        if target.startswith("socket:["):
            yield target[8:-1]
