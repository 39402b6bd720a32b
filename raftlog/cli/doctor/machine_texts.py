"""Reads what Linux says about a machine: mounts, memory, control groups. Pure; unknown lines are skipped."""

from __future__ import annotations

import re

_OCTAL = re.compile(r"\\([0-7]{3})")


def filesystem_of(mountinfo: str, path: str) -> str:
    """Return the type of the file system of an absolute path without links; "": unknown.

    Args:
        mountinfo: the text of `/proc/self/mountinfo`.
    """
    best, found = "", ""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.partition(" ")[0]
        if len(fields) < 5 or not kind:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, found = point, kind
    return found


def memory_of(meminfo: str) -> tuple[int, int]:
    """Return the bytes of memory and of swap; 0: unknown.

    Args:
        meminfo: the text of `/proc/meminfo`.
    """
    sizes = dict(re.findall(r"^(MemTotal|SwapTotal): +([0-9]{1,15}) kB$", meminfo, re.MULTILINE))
    return int(sizes.get("MemTotal", 0)) << 10, int(sizes.get("SwapTotal", 0)) << 10


def control_groups(cgroup: str) -> list[str]:
    """Return the folders of this process's control group (version 2) and of those above it, below `/sys/fs/cgroup`.

    Args:
        cgroup: the text of `/proc/self/cgroup`.
    """
    found = re.search(r"^0::/(.*)$", cgroup, re.MULTILINE)
    if found is None:
        return [""]
    names = [name for name in found[1].split("/") if name not in ("", ".", "..")]
    return ["/".join(names[:count]) for count in range(len(names), -1, -1)]


def number(text: str) -> int | None:
    """Return a number of a system's file; None: it has none, as in `max`."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text := text.strip()) else None


def cpus_allowed(cpu_max: str) -> float | None:
    """Return how many CPUs a control group may use; None: no limit.

    Args:
        cpu_max: the text of its `cpu.max`.
    """
    found = re.fullmatch(r"([0-9]{1,18}) ([1-9][0-9]{0,17})", cpu_max.strip())
    return None if found is None else int(found[1]) / int(found[2])
