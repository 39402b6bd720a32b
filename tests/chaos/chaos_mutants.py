"""`make chaos-mutants [ONLY="name name"]`: take one rule away from every node, and see a scenario turn red.

The rules are those of `tests/simulation/cluster_mutants.py`; the processes are real. A scenario is played a few times
at most: chance decides which record is in flight when a process dies. The last line is one JSON object; exit 1 if a
mutant survives.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from chaos.capabilities import probe
from chaos.options import Options
from chaos.runner import run_scenario
from chaos.scenarios import SCENARIOS

NODE = Path(__file__).with_name("mutant_node.py")
BUILD = Path("build") / "chaos-mutants"
TRIES = 6

FOUND_BY = {
    "sync_does_nothing": "power-cut",
    "acknowledged_when_the_leader_has_it": "isolate-leader",
    "high_watermark_of_the_leader_alone": "isolate-leader",
    "consumers_read_what_is_not_committed": "isolate-leader",
    "followers_do_not_see_that_histories_part": "isolate-leader",
    "leader_epochs_stand_still": "isolate-leader",
    "anybody_is_elected": "stale-replica",
    "who_leaves_the_isr_stays_eligible": "stale-replica",
    "a_replaced_disk_goes_unnoticed": "lost-disk",
    "a_lost_tail_goes_unnoticed": "lost-tail",
    "repeats_are_appended": "lost-answers",
    "producers_are_forgotten_at_a_restart": "lost-answers",
    "followers_learn_nothing_of_producers": "lost-answers",
    "certificates_are_read_once": "rotation",
    "a_former_password_counts": "rotation",
    "deny_rules_do_not_count": "rotation",
    "withdrawn_keys_count": "rotation",
    "expired_tokens_count": "rotation",
}


async def search(name: str, options: Options) -> dict[str, Any]:
    """Play the mutant's scenario until it is red."""
    os.environ["MUTANT"] = name
    scenario, started, report = FOUND_BY[name], time.monotonic(), dict[str, Any]()
    for seed in range(1, TRIES + 1):
        asked = Options(seed=seed, capabilities=options.capabilities, command=options.command)
        report = (await run_scenario(scenario, BUILD / name, asked)).report
        if _shows(report):
            break
    return {
        "mutant": name,
        "scenario": scenario,
        "found": _shows(report),
        "tries": seed,
        "anomalies": report.get("anomalies", {}),
        "broken_promise": report.get("broken_promise", "")[:300],
        "seconds": round(time.monotonic() - started),
    }


def _shows(report: dict[str, Any]) -> bool:
    """Return whether a promise was broken: a run that failed otherwise, on a busy machine, shows nothing."""
    came_to_nothing = report["broken_promise"].startswith("TimeoutError") or not report["acknowledged"]
    return bool(report["anomalies"]) or (bool(report["broken_promise"]) and not came_to_nothing)


def main() -> int:
    names = sys.argv[1:] or list(FOUND_BY)
    if unknown := [name for name in names if name not in FOUND_BY]:
        sys.stderr.write(f"no mutant is named {unknown[0]!r}; mutants: {', '.join(FOUND_BY)}\n")
        return 2
    command = (sys.executable, str(NODE), "server", "start")
    options, searches = Options(capabilities=probe(BUILD / "probe"), command=command), []
    for name in names:
        if not options.capabilities.has(SCENARIOS[FOUND_BY[name]].needs):
            sys.stderr.write(f"{name}: {options.capabilities.warnings[0]}\n")
            continue
        searches.append(asyncio.run(search(name, options)))
        sys.stderr.write(f"{orjson.dumps(searches[-1]).decode()}\n")
    survivors = [done["mutant"] for done in searches if not done["found"]]
    summary = {"ok": not survivors, "survivors": survivors, "searches": searches}
    sys.stdout.write(orjson.dumps(summary).decode() + "\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
