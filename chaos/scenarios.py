"""The scenarios by name: each with its story, its cluster and its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos import replica_stories, rotation, rotting, stories, strangers
from chaos.capabilities import Capability
from chaos.client_kinds import KAFKA_KINDS, KINDS, ClientKind
from chaos.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One story.

    Args:
        brokers: how many, each with a replica of every partition.
        disks: whether each node gets a disk of its own and the shim, where the machine can.
        needs: a capability without which the story is skipped.
        configs: the topic's settings.
        secure: whether nodes require TLS, certificates and access rules, also without SECURE=1.
    """

    story: Callable[[Run], Awaitable[None]]
    brokers: int = 3
    partitions: int = 3
    disks: bool = False
    needs: Capability | None = None
    kinds: Sequence[ClientKind] = KINDS
    configs: Mapping[str, str | int | bool] = field(default_factory=dict)
    secure: bool = False


SCENARIOS: dict[str, Scenario] = {
    "isolate-leader": Scenario(story=stories.isolate_leader_then_kill_all_but_one),
    "kill-each": Scenario(story=stories.kill_each_process),
    "n-1-of-2": Scenario(story=replica_stories.n_minus_1, brokers=2, disks=True),
    "n-1-of-3": Scenario(story=replica_stories.n_minus_1, brokers=3, disks=True),
    "n-1-of-5": Scenario(story=replica_stories.n_minus_1, brokers=5, disks=True),
    "cold-start": Scenario(story=stories.cold_start),
    "kafka-clients": Scenario(story=replica_stories.kafka_clients, disks=True, kinds=KAFKA_KINDS),
    "rolling-restart": Scenario(story=stories.rolling_restart),
    "failover": Scenario(story=stories.failover),
    "power-cut": Scenario(story=replica_stories.power_cut_of_all, disks=True, needs="disk"),
    "lost-tail": Scenario(story=replica_stories.lost_tail, disks=True, needs="disk", configs={"flush": "os"}),
    "lost-disk": Scenario(story=replica_stories.lost_disk),
    "rot": Scenario(story=rotting.rot),
    "strangers": Scenario(story=strangers.strangers),
    "rotation": Scenario(story=rotation.rotate_credentials, secure=True),
    "stale-replica": Scenario(story=replica_stories.stale_replica),
    "paused-leader": Scenario(story=stories.paused_leader),
    "lost-answers": Scenario(story=stories.lost_answers),
    "matrix": Scenario(story=stories.matrix, disks=True),
    "swarm": Scenario(story=stories.swarm, disks=True),
}
