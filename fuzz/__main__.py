"""`python -m fuzz` tries hostile inputs, one target after another, for a time. Exit status 1: one did harm."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from fuzz.batches import Batches
from fuzz.brokers import Brokers
from fuzz.clients import Clients
from fuzz.cluster import FuzzedCluster
from fuzz.kafka_brokers import KafkaBrokers
from fuzz.kafka_messages import KafkaMessages
from fuzz.kafka_records import KafkaRecords
from fuzz.run import CORPUS, ROUND_S, Found, explore, replay
from fuzz.target import Finding, Target

TARGETS: dict[str, Callable[[FuzzedCluster], Target]] = {
    "batches": lambda _: Batches(),
    "brokers": Brokers,
    "clients": Clients,
    "kafka_brokers": KafkaBrokers,
    "kafka_messages": lambda _: KafkaMessages(),
    "kafka_records": lambda _: KafkaRecords(),
}


def main() -> int:
    """Run the named targets."""
    options = _options()
    number = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {number}; inputs that do harm are kept in {CORPUS}", flush=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(FuzzedCluster())
        targets = [stack.enter_context(TARGETS[name](cluster)) for name in options.target or TARGETS]
        found = [again for target in targets for again in replay(target)]
        if not found:
            found = _explore_all(targets, random.Random(number), 60 * options.minutes)
        found += [bad for target in targets if (bad := _finished(target)) is not None]
    for bad in found:
        print(f"FOUND by {bad.target}: {bad.problem}\n  kept as {bad.path}", flush=True)
    return 1 if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", help=f"of {', '.join(TARGETS)} (all)")
    parser.add_argument("--minutes", type=float, default=10, help="how long, all targets together (10)")
    parser.add_argument("--seed", type=int, help="begin as an earlier run did")
    return parser.parse_args()


def _explore_all(targets: list[Target], dice: random.Random, seconds: float) -> list[Found]:
    """Run the targets one after another, again and again; stop at the first finding."""
    began = time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        for target in targets:
            found = explore(target, dice, min(ROUND_S, left / len(targets)))
            if found is not None:
                return [found]
        done = min(1.0, (time.monotonic() - began) / seconds)
        print(f"{100 * done:3.0f} %  {'; '.join(target.finish() for target in targets)}", flush=True)
    return []


def _finished(target: Target) -> Found | None:
    try:
        target.finish()
    except Finding as problem:
        return Found(target.name, str(problem), CORPUS / target.name)
    return None


if __name__ == "__main__":
    sys.exit(main())
