"""`raftlog acls`: access rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar, get_args

import click

from raftlog.cli.remote import admin, bootstrap_option, local_option
from raftlog.cli.shared import json_option, plural, print_done, print_json, print_table, run
from raftlog.model import Acl, AclOperation, AclResource

F = TypeVar("F", bound=Callable[..., Any])


@click.group("acls")
def command() -> None:
    """List, create and delete access rules. Deny wins over allow."""


def rule_options(*, required: bool) -> Callable[[F], F]:
    """Add an option for each field of a rule; `required` applies to those without a default."""
    options = [
        click.option("--principal", required=required, help="A user's name, User:NAME, Group:NAME, or *."),
        click.option("--operation", required=required, type=click.Choice(get_args(AclOperation))),
        click.option("--resource-type", required=required, type=click.Choice(get_args(AclResource))),
        click.option("--resource-name", required=required, help="A name, a prefix, or *."),
        click.option("--pattern", type=click.Choice(["literal", "prefixed"]), default="literal" if required else None),
        click.option("--permission", type=click.Choice(["allow", "deny"]), default="allow" if required else None),
        click.option("--host", default="*" if required else None, help="An address, or *."),
    ]

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@command.command("list")
@rule_options(required=False)
@bootstrap_option
@local_option
@json_option
def list_(bootstrap: list[str], local: bool, as_json: bool, **wanted: Any) -> None:
    """List access rules: all, or those that match."""

    async def work() -> tuple[list[Acl], str]:
        async with admin(bootstrap) as client:
            return await client.acls(local=local, **_given(wanted)), await client.authorizer()

    acls, authorizer = run(work())
    _show(acls, as_json)
    if not as_json:
        click.echo(enforcement(authorizer), err=True)


@command.command("create")
@rule_options(required=True)
@bootstrap_option
@json_option
def create(bootstrap: list[str], as_json: bool, **rule: Any) -> None:
    """Create an access rule. Brokers enforce rules if `security.authorizer` in their node.toml is "acl"."""

    async def work() -> str:
        async with admin(bootstrap) as client:
            await client.create_acls([Acl(**rule)])
            return await client.authorizer()

    authorizer = run(work())
    print_done(f"created; {enforcement(authorizer)}", as_json, created=rule, authorizer=authorizer)


@command.command("delete")
@rule_options(required=False)
@click.option("--all", "everything", is_flag=True, help="Required to delete every rule.")
@bootstrap_option
@json_option
def delete(bootstrap: list[str], everything: bool, as_json: bool, **wanted: Any) -> None:
    """Delete the access rules that match, and list them."""
    if not _given(wanted) and not everything:
        raise click.UsageError("expected fields of the rules to delete, or --all; received neither")

    async def work() -> list[Acl]:
        async with admin(bootstrap) as client:
            return await client.delete_acls(**_given(wanted))

    ended = run(work())
    _show(ended, as_json)
    if not as_json:
        click.echo(f"{plural(len(ended), 'rule')} ended")


def enforcement(authorizer: str) -> str:
    """Return a line about what a broker does with rules."""
    match authorizer:
        case "acl":
            return "brokers enforce access rules"
        case "log-only":
            return 'brokers log what access rules would refuse; they enforce rules with security.authorizer = "acl"'
        case _:
            return 'brokers do not enforce access rules: security.authorizer is "off"'


def _given(wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if value is not None}


def _show(acls: Sequence[Acl], as_json: bool) -> None:
    if as_json:
        print_json([asdict(acl) for acl in acls])
        return
    names = [field.name for field in fields(Acl)]
    rows = [[getattr(acl, name) for name in names] for acl in acls]
    print_table([name.replace("_", " ") for name in names], rows, empty="no rules")
