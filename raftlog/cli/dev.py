"""`raftlog dev`: a local cluster for development and failure tests."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from raftlog.cli.client_profiles import client_lines, write_profiles
from raftlog.cli.health import NodeStatus
from raftlog.cli.launcher import Launcher
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.shared import DEFAULT_BOOTSTRAP, json_option, print_json, print_table, quiet_when_closed
from raftlog.errors import RaftlogError

DEFAULT_DATA = "raftlog-data"
ADMIN = "admin"
"""The user with a certificate in a cluster that `dev up --secure` starts."""
_WATCH_INTERVAL_S = 0.5
_SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM, "STOP": signal.SIGSTOP, "CONT": signal.SIGCONT}

F = TypeVar("F", bound=Callable[..., Any])


@click.group("dev")
def command() -> None:
    """Run a cluster on this machine."""


def data_option(function: F) -> F:
    """Add `--data`, the cluster's folder."""
    return click.option(
        "--data",
        default=DEFAULT_DATA,
        show_default=True,
        envvar="RAFTLOG_DATA",
        show_envvar=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="The cluster's folder. Each folder is a separate cluster.",
    )(function)


@command.command("up")
@click.option("--controllers", type=int, help="An odd number. Default: the folder's, or 3.")
@click.option("--brokers", type=int, help="Default: the folder's, or 3.")
@click.option(
    "--port", type=int, help="The first broker's port, and base of the others. Default: the folder's, or 9400."
)
@click.option("--detach", is_flag=True, help="Return once the cluster is ready; stop it with: raftlog dev down.")
@click.option("--secure", is_flag=True, help="TLS and access rules, with certificates of a CA in --data.")
@data_option
def up(controllers: int | None, brokers: int | None, port: int | None, detach: bool, secure: bool, data: Path) -> None:
    """Start a cluster, or restart the one in --data. Without --detach, Ctrl-C stops it; its data stays."""
    with _errors(), _interruptible():
        launcher = Launcher(detach=detach)
        cluster = LocalCluster(data, controllers=controllers, brokers=brokers, port=port, launcher=launcher)
        if secure:
            from raftlog.cli.security import secure as make_secure  # noqa: PLC0415  (few clusters are)

            cluster.require_stopped()  # Running nodes would go on without what their files then say.
            make_secure(cluster, ADMIN)
        cluster.start()
        leave_running = False
        try:
            _wait_ready(cluster)
            leave_running = detach
            with quiet_when_closed():
                _greet(cluster, data)
            if not detach:
                _watch(cluster, data)
        except KeyboardInterrupt:
            if detach:
                raise
            click.echo("\nStopping the cluster.", err=True)
        finally:
            if not leave_running:
                _stop(cluster)


def _wait_ready(cluster: LocalCluster) -> None:
    with Console(stderr=True, emoji=False).status(f"starting {len(cluster.names)} nodes"):
        cluster.wait_ready()


def _greet(cluster: LocalCluster, data: Path) -> None:
    _print_status(cluster.status())
    bootstrap = cluster.public_url(cluster.brokers[0])
    elsewhere = _elsewhere(data)
    click.echo(f"\nThe cluster is ready. Its data and logs are in {data}. Try:\n")
    more: list[str] = []
    if bootstrap.startswith("https://"):
        config = write_profiles(cluster.data / "security", [ADMIN], cluster.bootstrap.split(","))
        first, *more = client_lines(config, "greetings")
        click.echo(f"  {first}")
    elif bootstrap != DEFAULT_BOOTSTRAP:
        click.echo(f"  export RAFTLOG_BOOTSTRAP={bootstrap}")
    click.echo("  raftlog topics create greetings --partitions 3")
    click.echo("  echo hello | raftlog produce greetings")
    click.echo("  raftlog consume greetings --from-beginning --max-records 1")
    for line in more:
        click.echo(f"  {line}")
    click.echo(f"  raftlog dev kill {cluster.brokers[0]}{elsewhere}      # the cluster continues")
    click.echo(f"  raftlog dev down{elsewhere}")


def _elsewhere(data: Path) -> str:
    """Return the `--data` option of this cluster, if it is not in the default folder."""
    return "" if data == Path(DEFAULT_DATA) else f" --data {data}"


def _watch(cluster: LocalCluster, data: Path) -> None:
    """Report nodes that exit, until Ctrl-C or until another command stops the cluster."""
    reported: set[str] = set()
    with quiet_when_closed():
        click.echo("\nCtrl-C stops the cluster.")
    while processes := {name: process for name in cluster.names if (process := cluster.process(name))}:
        dead = {name for name, process in processes.items() if not process.alive}
        for name in sorted(dead - reported):
            again = f"raftlog dev restart {name}{_elsewhere(data)}"
            with quiet_when_closed():
                click.echo(f"{name} has died; see {cluster.node(name).log_path}; start it with: {again}", err=True)
        reported = dead
        time.sleep(_WATCH_INTERVAL_S)
    click.echo("The cluster was stopped by another command.", err=True)


@command.command("status")
@data_option
@json_option
def status(data: Path, as_json: bool) -> None:
    """Show every node: whether it runs, and where it listens."""
    with _errors():
        nodes = LocalCluster.open(data).status()
    if as_json:
        print_json([asdict(node) for node in nodes])
    else:
        _print_status(nodes)


@command.command("kill")
@click.argument("node")
@click.option("--signal", "name", type=click.Choice(list(_SIGNALS)), default="KILL", show_default=True)
@data_option
def kill(node: str, name: str, data: Path) -> None:
    """Kill NODE with SIGKILL; --signal STOP pauses it, CONT resumes it."""
    with _errors():
        LocalCluster.open(data).kill(node, _SIGNALS[name])
    click.echo(f"{node}: SIG{name} sent" if name in {"STOP", "CONT"} else f"{node}: ended by SIG{name}")


@command.command("restart")
@click.argument("node")
@data_option
def restart(node: str, data: Path) -> None:
    """Restart NODE, stopping it first if it runs, and wait until it is ready."""
    with _errors():
        cluster = LocalCluster.open(data, launcher=Launcher(detach=True))  # It must outlive this command.
        cluster.restart(node)
        cluster.wait_ready(names=[node])
    click.echo(f"{node}: ready")


@command.command("down")
@data_option
def down(data: Path) -> None:
    """Stop every node. The data stays: raftlog dev up starts the cluster again."""
    with _errors():
        cluster = LocalCluster.open(data)
        running = cluster.running()
        _stop(cluster)
    click.echo(f"ended {len(running)} nodes" if running else "nothing was running")


def _stop(cluster: LocalCluster) -> None:
    for name in cluster.stop():
        click.echo(f"{name} did not exit after SIGTERM and was killed; see {cluster.node(name).log_path}", err=True)


def _print_status(nodes: Sequence[NodeStatus]) -> None:
    print_table(
        ["node", "state", "pid", "clients", "nodes"],
        [(node.name, node.state, node.pid or "", node.public, node.internal) for node in nodes],
    )


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except RaftlogError as error:
        raise click.ClickException(error.message) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Treat SIGTERM and a closed terminal like Ctrl-C, so that nodes shut down cleanly; not with `nohup`."""
    handled = [sig for sig in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(sig) is not signal.SIG_IGN]
    before = {sig: signal.signal(sig, signal.default_int_handler) for sig in handled}
    try:
        yield
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)
