"""Measure raftlog beside other logs in one run; the last line is one JSON object. `make bench-peers` runs it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.calibration import page_cache_rates
from benchmarks.peers.contestants import CONTESTANTS, SERVERS, WORKS
from benchmarks.peers.report import conclude
from benchmarks.peers.server import Server
from benchmarks.peers.trials import Plan, Table, Trials
from benchmarks.peers.verdict import DURABILITIES
from benchmarks.report import console

_CLIENTS = "no Python clients of the peers in .tools/peers-venv"


def main() -> int:
    """Measure the named contestants; exit 1 when a goal is missed or something failed."""
    options = _options()
    # An orderly exit stops the servers and removes their data.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _warn_when_busy()
    servers, skipped = _present(options.peers)
    plan = _plan(options)
    Path("build").mkdir(exist_ok=True)
    machine = _page_cache()
    tables: dict[bool, Table] = {}
    try:
        for durable in [durable for durable, name in DURABILITIES.items() if name in options.durability]:
            console.rule(DURABILITIES[durable])
            with tempfile.TemporaryDirectory(dir="build", prefix="peers-", ignore_cleanup_errors=True) as folder:
                trials = Trials(plan, servers, durable=durable, folder=Path(folder), say=_say)
                tables[durable] = trials.table
                trials.run()
    except KeyboardInterrupt:
        console.print("[red]interrupted: the measurements so far follow[/red]")
        for table in tables.values():
            table.errors.append("the run was interrupted")
        conclude(plan, tables, skipped, machine)
        return 130
    return conclude(plan, tables, skipped, machine, keeping=options.keep)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("peers", nargs="*", help=f"which ({', '.join(SERVERS)}); raftlog is always there")
    parser.add_argument("--quick", action="store_true", help="one short round after a short one to warm up")
    parser.add_argument("--rounds", type=int, help="how often everything is measured (5)")
    parser.add_argument("--seconds", type=float, help="how long a trial sends or reads at most (4)")
    parser.add_argument("--keep", action="store_true", help="later runs on such a machine are compared with this one")
    parser.add_argument("--partitions", type=int, default=1, help="of a topic, for Kafka and raftlog (1)")
    parser.add_argument("--tls", action="store_true", help="TLS on every connection, for Kafka and raftlog")
    parser.add_argument("--work", action="append", choices=[work.name for work in WORKS], help="may be repeated")
    parser.add_argument("--durability", action="append", choices=list(DURABILITIES.values()), help="may be repeated")
    options = parser.parse_args()
    if unknown := [name for name in options.peers if name not in SERVERS]:
        parser.error(f"no peer is named {unknown[0]!r}; peers: {', '.join(SERVERS)}")
    options.peers = options.peers or [name for name, cls in SERVERS.items() if cls.can_encrypt or not options.tls]
    if options.tls and (plain := [name for name in options.peers if not SERVERS[name].can_encrypt]):
        parser.error(f"--tls: {plain[0]} is measured in clear only")
    options.durability = options.durability or list(DURABILITIES.values())
    return options


def _plan(options: argparse.Namespace) -> Plan:
    chosen = {"raftlog", *options.peers}
    return Plan(
        works=[work for work in WORKS if not options.work or work.name in options.work],
        contestants=[
            contestant
            for contestant in CONTESTANTS
            if contestant.server in chosen and (contestant.has_certificate or not options.tls)
        ],
        rounds=options.rounds or (1 if options.quick else 5),
        warmup_rounds=1,
        seconds=options.seconds or (1.5 if options.quick else 4.0),
        warmup_s=0.5 if options.quick else 1.0,
        partitions=options.partitions,
        max_bytes=(128 if options.quick else 512) << 20,
        tls=options.tls,
    )


def _present(names: list[str]) -> tuple[dict[str, type[Server]], dict[str, str]]:
    """Return raftlog and the peers that can be run, and why the others cannot."""
    chosen = {name: SERVERS[name] for name in SERVERS if name in names or name == "raftlog"}
    skipped: dict[str, str] = {}
    for name, cls in chosen.items():
        if (reason := cls.missing() or (None if cls.python.exists() else _CLIENTS)) is not None:
            skipped[name] = reason
            console.print(f"[bold red]SKIPPED {name}: {reason}; run scripts/install-peers.sh {name}[/bold red]")
    return {name: cls for name, cls in chosen.items() if name not in skipped}, skipped


def _warn_when_busy() -> None:
    """Warn when other processes use the machine: a ratio is worth little then, a rate nothing."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        console.print(
            f"[bold red]BUSY: the load average is {load:.1f} on {cores} cores before anything starts[/bold red]"
        )


def _page_cache() -> dict[str, object]:
    """Return the machine's speed at writes to memory as it is found, and to memory that was just used."""
    found, again = page_cache_rates(Path("build"))
    if found < again / 3:
        console.print(
            f"[bold red]MEMORY: its first use costs: a second of CPU writes {found:,.0f} MB, and {again:,.0f} where "
            "memory was just used; trials that write touch theirs first[/bold red]"
        )
    return {"page_cache_MB_per_cpu_s": [found, again]}


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False)


if __name__ == "__main__":
    sys.exit(main())
