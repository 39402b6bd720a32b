"""`raftlog login`: a token from an issuer, in a file that only its user can read."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import orjson

from raftlog.cli.certificates import write_private
from raftlog.cli.oauth import Client, IssuerSession
from raftlog.cli.shared import json_option, print_done, run
from raftlog.client.security import read_token
from raftlog.errors import ConfigError
from raftlog.transport.token_source import expiry_of


def default_file() -> Path:
    """Return the file for a user's token."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(folder) if folder else Path.home() / ".config") / "raftlog" / "token.json"


@click.command("login")
@click.option("--issuer", envvar="RAFTLOG_ISSUER", show_envvar=True, help="The issuer's URL.")
@click.option(
    "--client-id", envvar="RAFTLOG_OAUTH_CLIENT_ID", show_envvar=True, help="The issuer's name for this program."
)
@click.option(
    "--client-secret-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the client's secret; or set RAFTLOG_CLIENT_SECRET. With a secret, no user takes part.",
)
@click.option("--scope", default="", help="Scopes to request, separated by spaces.")
@click.option("--audience", default="", help="The cluster's name at the issuer, where issuers want it here.")
@click.option("--ca-file", default="", help="PEM file of the CAs that the issuer's certificate is checked against.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="RAFTLOG_TOKEN_FILE",
    show_envvar=True,
    help="Where the token is stored, readable only by you.  [default: ~/.config/raftlog/token.json]",
)
@click.option("--renew", is_flag=True, help="Get the next token of an earlier login, without a user.")
@json_option
def command(
    issuer: str | None,
    client_id: str | None,
    client_secret_file: Path | None,
    scope: str,
    audience: str,
    ca_file: str,
    token_file: Path | None,
    renew: bool,
    as_json: bool,
) -> None:
    """Get a token from an issuer, and store it for other commands and programs.

    Without a client's secret, you confirm the login in a browser on any machine. The token is never printed.
    """
    path = token_file or default_file()
    earlier = _stored(path) if renew else {}
    issuer, client_id = issuer or earlier.get("issuer"), client_id or earlier.get("client_id")
    if not issuer or not client_id:
        raise click.UsageError("name the issuer and the client: --issuer https://login.example.org --client-id raftlog")
    secret = _secret(client_secret_file)
    client = Client(client_id, secret, scope, audience)

    async def work() -> dict[str, Any]:
        async with IssuerSession(issuer, ca_file=ca_file) as session:
            if renew and (refresh := earlier.get("refresh_token")):
                return {"refresh_token": refresh} | await session.with_refresh_token(client, str(refresh))
            if secret:
                return await session.with_secret(client)
            if renew:
                raise ConfigError(f"{path} has no refresh token; log in without --renew")
            return await session.with_device(client, _show)

    answer = run(work())
    kept = {name: answer[name] for name in ("access_token", "refresh_token") if isinstance(answer.get(name), str)}
    _store(path, {"issuer": issuer, "client_id": client_id} | kept)
    until = _until(answer)
    print_done(
        f"logged in{f' until {until}' if until else ''}; use it with: export RAFTLOG_TOKEN_FILE={path}",
        as_json,
        token_file=str(path),
        until=until,
    )


def _show(url: str, code: str) -> None:
    click.echo(f"Open {url!r} in a browser, and enter the code {code!r}. Waiting...", err=True)


def _secret(file: Path | None) -> str:
    if file is None:
        return os.environ.get("RAFTLOG_CLIENT_SECRET", "")
    return file.read_text("utf-8").strip()


def _stored(path: Path) -> dict[str, Any]:
    """Return the document of an earlier login."""
    try:
        read_token(str(path))
        document = orjson.loads(path.read_bytes())
    except ConfigError as error:
        raise click.ClickException(error.message) from None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise click.ClickException(f"{path} holds a token that raftlog login has not written; log in without --renew")
    return document


def _store(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, orjson.dumps(document))


def _until(answer: dict[str, Any]) -> str:
    """Return when the token expires; "": the issuer does not say."""
    lifetime = answer.get("expires_in")
    is_number = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
    until_s = time.time() + float(lifetime or 0) if is_number else expiry_of(answer["access_token"])
    try:
        return datetime.fromtimestamp(until_s).astimezone().isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return ""
