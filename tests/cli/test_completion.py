"""The completion scripts: valid, and completing in a real bash; and what a mistyped word is answered."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from raftlog.cli.main import cli

_ADMINISTRATION = ("topics", "groups", "configs", "acls", "users", "quotas", "cluster")


def script(shell: str) -> str:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_valid(shell: str):
    text = script(shell)
    assert f"_RAFTLOG_COMPLETE={shell}_complete" in text
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=text, text=True, check=True, capture_output=True, timeout=10)


def test_bash_completes(tmp_path: Path):
    command = tmp_path / "raftlog"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m raftlog "$@"\n')
    command.chmod(0o755)
    (tmp_path / "script").write_text(script("bash"))
    ask = """
    source "$1/script"
    ask() {
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
        _raftlog_completion raftlog
        echo "${COMPREPLY[@]}"
    }
    ask raftlog to
    ask raftlog topics del
    ask raftlog topics create t --repl
    ask raftlog perf produce --acks ""
    """
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    arguments = ["bash", "--norc", "-c", ask, "bash", str(tmp_path)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["top topics", "delete delete-records", "--replication-factor", "all 1 0"]


@pytest.mark.cluster
def test_topics_and_groups_are_completed_by_name(shared_cluster, topic_name: str):
    from raftlog.blocking import Admin, Consumer  # noqa: PLC0415  (the other tests need no client)

    with Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name)
        with Consumer(shared_cluster.bootstrap, topic_name, group_id=f"group-{topic_name}") as member:
            member.commit({(topic_name, 0): 0})

    def completed(words: str, bootstrap: str = shared_cluster.bootstrap) -> str:
        environment = {
            "_RAFTLOG_COMPLETE": "bash_complete",
            "COMP_WORDS": f"raftlog {words}",
            "COMP_CWORD": str(len(words.split())),
            "RAFTLOG_BOOTSTRAP": bootstrap,
        }
        return CliRunner(env=environment).invoke(cli, prog_name="raftlog").stdout

    assert completed(f"topics describe {topic_name[:-1]}") == f"plain,{topic_name}\n"
    assert completed(f"groups delete group-{topic_name[:-1]}") == f"plain,group-{topic_name}\n"
    assert completed("topics describe t", bootstrap="http://127.0.0.1:1").strip() == ""


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["topisc", "list"], "Did you mean 'topics'?"),
        (["topics", "lits"], "Did you mean 'list'?"),
        (["topics", "list", "--jsno"], "Did you mean '--json'?"),
        (["perf", "produce", "--record-sise", "1"], "Did you mean one of: '--record-size'"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest(arguments: list[str], hint: str):
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert hint in done.stderr


def leaves(command: click.Command, path: str = "raftlog") -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, f"{path} {name}")


def test_administration_answers_in_json_too_and_every_command_has_a_help():
    commands = dict(leaves(cli))
    with_json = {path for path in commands if any("--json" in option.opts for option in commands[path].params)}
    assert {path for path in commands if path.split()[1] in _ADMINISTRATION} <= with_json
    assert {f"raftlog {name}" for name in ("dev status", "log dump", "storage check", "quorum describe")} <= with_json
    assert [path for path, command in commands.items() if not command.help] == []


def test_no_colours_outside_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    from raftlog.cli.shared import print_table  # noqa: PLC0415

    runner = CliRunner()
    done = runner.invoke(click.command()(lambda: print_table(["a", "b"], [(1, "x")])))
    assert done.stdout.split() == ["a", "b", "1", "x"]
    assert re.search(r"\x1b", done.stdout + runner.invoke(cli, ["--help"]).stdout) is None
