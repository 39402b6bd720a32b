"""The options of `make chaos` for every scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.capabilities import Capabilities
from raftlog.cli.launcher import SERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a scenario is run.

    Args:
        seed: seeds every random choice.
        duration_s: for scenarios without a fixed end; None means their own default.
        hours: after the scenarios, `swarm` repeats for so long, each time with the next seed.
        load: bulk records a second, written and read beside the checked keys (`bulk_load`); 0: none.
        kills: how many times `failover` kills; None means its own default.
        secure: nodes require TLS, certificates and access rules; the suite's clients are a super user's.
        capabilities: what this machine can do to nodes.
        command: what runs a node.
    """

    seed: int = 1
    duration_s: float | None = None
    hours: float = 0.0
    kills: int | None = None
    load: int = 0
    secure: bool = False
    capabilities: Capabilities = field(default_factory=Capabilities)
    command: Sequence[str] = SERVER

    @classmethod
    def of(cls, environment: Mapping[str, str], capabilities: Capabilities) -> Options:
        """Read SEED, DURATION (s), HOURS, KILLS, LOAD (records a second) and SECURE; an empty one counts as absent."""
        return cls(
            seed=int(environment.get("SEED") or 1),
            duration_s=float(environment.get("DURATION") or 0) or None,
            hours=float(environment.get("HOURS") or 0),
            load=int(environment.get("LOAD") or 0),
            secure=environment.get("SECURE", "") not in ("", "0"),
            kills=int(environment.get("KILLS") or 0) or None,
            capabilities=capabilities,
        )
