"""`raftlog doctor`: checks a cluster, a node's files and its machine."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftlog.cli.connecting import security_in_use
from raftlog.cli.daemon_threads import run_bounded
from raftlog.cli.doctor.findings import EXIT_CODES, Finding, Severity, cleaned, counts, failed, worst
from raftlog.cli.doctor.report import report
from raftlog.cli.remote import bootstrap_option, own_option
from raftlog.cli.shared import FiniteRange, json_option, print_json, quiet_when_closed
from raftlog.errors import RaftlogError
from raftlog.version import VERSION

if TYPE_CHECKING:
    from raftlog.client.security import Security

GRACE_S = 1.0
"""How long the checks may take after the last fact has arrived, or has not."""
_PIPE_WIDTH = 100
_COLORS: dict[Severity, str] = {"ok": "green", "note": "blue", "warning": "yellow", "error": "red"}


@click.command("doctor")
@own_option(
    "--config",
    "config_file_of_node",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="NODE.TOML",
    help="The settings of a node: check its files and this machine, too.",
)
@click.option(
    "--data",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder for data: check its disk and this machine, too. Repeatable.",
)
@click.option("--offline", is_flag=True, help="Connect to nothing: check only --config, --data and this machine.")
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteRange(1, 600),
    default=20,
    show_default=True,
    metavar="SECONDS",
    help="Report after this time, whatever has not answered.",
)
@bootstrap_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    bootstrap: list[str],
    config_file_of_node: Path | None,
    data: tuple[Path, ...],
    offline: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Check a cluster; with --config or --data also a node's files, and the machine that it runs on.

    Changes nothing. The file with profiles is named before the command: raftlog --config FILE doctor.

    Exit codes: 0 healthy, perhaps with notes; 1 warnings; 2 errors, or wrong usage.
    """
    has_machine = offline or config_file_of_node is not None or bool(data)
    findings: list[Finding] = []
    security = None if offline else _security(findings)
    with ExitStack() as stack:
        work = _examine(
            security,
            bootstrap,
            (config_file_of_node, data) if has_machine else None,
            timeout_s=timeout_s,
            progress=_progress(stack),
        )
        findings += run_bounded(work)
    found = cleaned(findings)
    with quiet_when_closed():
        _print(found, as_json=as_json)
    context.exit(EXIT_CODES[worst(found)])


def _security(findings: list[Finding]) -> Security | None:
    try:
        return security_in_use()
    except RaftlogError as error:
        findings.append(failed("credentials", "this command", error.message, severity="error"))
        return None


def _progress(stack: ExitStack) -> Callable[[str], None]:
    """Return a function that shows what is being done, if standard error is a terminal."""
    if not sys.stderr.isatty():
        return lambda _: None
    from rich.console import Console  # noqa: PLC0415  (scripts need no display)

    return stack.enter_context(Console(stderr=True, emoji=False).status("checking")).update


async def _examine(
    security: Security | None,
    bootstrap: Sequence[str],
    machine: tuple[Path | None, Sequence[Path]] | None,
    *,
    timeout_s: float,
    progress: Callable[[str], None],
) -> list[Finding]:
    """Return what is found, after `timeout_s` at the latest."""
    parts = {}
    if security is not None:
        parts["the cluster"] = _cluster(security, bootstrap, machine, timeout_s=timeout_s, progress=progress)
    if machine is not None:
        parts["this machine"] = _machine(*machine, timeout_s=timeout_s)
    tasks = {name: asyncio.ensure_future(part) for name, part in parts.items()}
    if tasks:
        await asyncio.wait(tasks.values(), timeout=timeout_s + GRACE_S)
    findings: list[Finding] = []
    for name, task in tasks.items():
        if not task.done():
            task.cancel()
            findings.append(failed("deadline", name, f"no end within {timeout_s:g} s", severity="error"))
        elif (error := task.exception()) is not None:
            findings.append(failed("doctor", name, f"{type(error).__name__}: {error}"))
        else:
            findings += task.result()
    return findings


async def _cluster(
    security: Security,
    bootstrap: Sequence[str],
    machine: tuple[Path | None, Sequence[Path]] | None,
    *,
    timeout_s: float,
    progress: Callable[[str], None],
) -> list[Finding]:
    from raftlog.cli.doctor.cluster_checks import check_cluster  # noqa: PLC0415
    from raftlog.cli.doctor.cluster_facts import gather_cluster  # noqa: PLC0415
    from raftlog.cli.doctor.dialling import Dialler  # noqa: PLC0415
    from raftlog.cli.doctor.machine_facts import quorum_urls  # noqa: PLC0415

    voters = {} if machine is None else quorum_urls(machine[0])
    try:
        async with Dialler(security, timeout_s=timeout_s) as dialler:
            facts = await gather_cluster(
                dialler, bootstrap, on_node=machine is not None, quorum_urls=voters, progress=progress
            )
            return check_cluster(facts)
    except RaftlogError as error:
        return [failed("credentials", "this command", error.message, severity="error")]


async def _machine(config_file: Path | None, data: Sequence[Path], *, timeout_s: float) -> list[Finding]:
    from raftlog.cli.doctor.machine_checks import check_machine  # noqa: PLC0415
    from raftlog.cli.doctor.machine_facts import gather_machine  # noqa: PLC0415

    return check_machine(await gather_machine(config_file, data, timeout_s=timeout_s))


def _print(findings: Sequence[Finding], *, as_json: bool) -> None:
    if as_json:
        found = [asdict(finding) for finding in findings]
        print_json(
            {"severity": worst(findings), "counts": counts(findings), "findings": found, "raftlog_version": VERSION}
        )
        return
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else _PIPE_WIDTH

    def paint(word: str, severity: Severity) -> str:
        return click.style(word, fg=_COLORS[severity], bold=True) if is_terminal else word

    for line in report(findings, width=width, paint=paint):
        click.echo(line)
