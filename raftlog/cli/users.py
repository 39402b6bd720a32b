"""`raftlog users`: users and their passwords."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from raftlog.cli.remote import admin, bootstrap_option, local_option
from raftlog.cli.shared import json_option, print_done, print_json, print_table, run
from raftlog.wire.admin import UserInfo


@click.group("users")
def command() -> None:
    """List, create and delete users. The cluster stores no passwords, only SCRAM credentials."""


@command.command("list")
@bootstrap_option
@local_option
@json_option
def list_(bootstrap: list[str], local: bool, as_json: bool) -> None:
    """List all users."""

    async def work() -> tuple[list[UserInfo], str]:
        async with admin(bootstrap) as client:
            return await client.users(local=local), await client.authorizer()

    users, authorizer = run(work())
    if as_json:
        print_json([asdict(user) for user in users])
    else:
        rows = [(user.user, ", ".join(user.mechanisms) or user.mechanism) for user in users]
        print_table(["user", "mechanisms"], rows, empty="no users")
        click.echo(_asked(authorizer), err=True)


@command.command("put")
@click.argument("user")
@click.option("--password", help="Avoid it: other users of this machine can see it.")
@bootstrap_option
@json_option
def put(user: str, password: str | None, bootstrap: list[str], as_json: bool) -> None:
    """Create USER, or change USER's password: from a prompt, or the first line of standard input."""
    secret = password if password is not None else _read_password()

    async def work() -> None:
        async with admin(bootstrap) as client:
            await client.put_user(user, secret)

    run(work())
    print_done(f"{user}: stored", as_json, stored=user)


@command.command("delete")
@click.argument("user")
@bootstrap_option
@json_option
def delete(user: str, bootstrap: list[str], as_json: bool) -> None:
    """Delete USER."""

    async def work() -> None:
        async with admin(bootstrap) as client:
            await client.delete_user(user)

    run(work())
    print_done(f"{user}: deleted", as_json, deleted=user)


def _asked(authorizer: str) -> str:
    """Return a line about when brokers ask for passwords."""
    if authorizer == "acl":
        return "brokers check passwords"
    return f'brokers serve requests without passwords: security.authorizer is "{authorizer}"'


def _read_password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\r\n")
