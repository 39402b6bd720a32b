"""Each package is either pure or does IO, and the import contracts in pyproject.toml name every pure one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHELLS = {
    "raftlog",
    "raftlog.blocking",
    "raftlog.broker",
    "raftlog.broker.console",
    "raftlog.broker.kafka",
    "raftlog.broker.lean",
    "raftlog.broker.metrics",
    "raftlog.broker.routes",
    "raftlog.broker.topic_reads",
    "raftlog.cli",
    "raftlog.cli.doctor",
    "raftlog.cli.top",
    "raftlog.client",
    "raftlog.coordinator",
    "raftlog.coordinator.runtime",
    "raftlog.coordinator.transaction",
    "raftlog.metadata_quorum",
    "raftlog.metadata_quorum.raft",
    "raftlog.partition",
    "raftlog.partition.storage",
    "raftlog.security",
    "raftlog.serving",
    "raftlog.transport",
}
"""Packages whose modules may do IO, apart from those that the contract names one by one."""


def pure_modules() -> set[str]:
    """Return the modules and packages that the contract names."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (pure,) = [one for one in contracts if one["name"] == "Pure cores do no IO"]
    return set(pure["source_modules"])


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "raftlog").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def test_every_package_is_pure_or_a_shell():
    """A new package fails here until its author has decided which it is."""
    pure = pure_modules()
    packages = {module for module, path in modules() if path.name == "__init__.py"}
    undecided = {
        package
        for package in packages - SHELLS
        if not any(package == other or package.startswith(f"{other}.") for other in pure)
    }
    assert undecided == set()
    assert packages >= SHELLS


def test_the_contract_names_modules_that_exist():
    pure = pure_modules()
    assert pure <= {module for module, _ in modules()}


@pytest.mark.parametrize("core", ["core", "controller"])
def test_every_core_is_in_the_contract(core: str):
    pure = pure_modules()
    cores = {module for module, path in modules() if path.name == "__init__.py" and module.endswith(f".{core}")}
    assert cores <= pure
