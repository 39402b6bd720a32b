"""The faults that this machine can inject, tried once at the start. Missing ones are reported and skipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from chaos import disks, shim

Capability: TypeAlias = Literal["disk", "shim"]
NEEDS: dict[Capability, str] = {
    "disk": "a disk for each node (root, mkfs.ext4, loop devices, EXT4_IOC_SHUTDOWN)",
    "shim": "a library preloaded into each node (a C compiler)",
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """By missing capability, the reason."""

    missing: dict[Capability, str] = field(default_factory=dict)

    def has(self, capability: Capability | None) -> bool:
        return capability not in self.missing

    @property
    def warnings(self) -> list[str]:
        return [f"SKIPPED: faults that need {NEEDS[name]}: {why}" for name, why in self.missing.items()]


def probe(folder: Path) -> Capabilities:
    """Try each capability once in `folder`, which is left as it was."""
    missing: dict[Capability, str] = {}
    if why := disks.why_not(folder):
        missing["disk"] = why
    try:
        shim.build(folder).unlink()
    except shim.ShimError as error:
        missing["shim"] = str(error)
    return Capabilities(missing)
