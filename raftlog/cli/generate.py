"""`raftlog generate`: files that describe this version. No cluster is needed."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("generate")
def command() -> None:
    """Write files that describe this version; no cluster is needed."""


@command.command("openapi")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="The file.  [default: standard output]")
def openapi(output: Path | None) -> None:
    """Write the OpenAPI 3.1 document of the brokers' HTTP API, as JSON.

    Brokers serve it at GET /v1/openapi.json.
    """
    import orjson  # noqa: PLC0415  (`--help` loads next to nothing)

    from raftlog.broker.openapi.document import document  # noqa: PLC0415

    text = orjson.dumps(document(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_bytes(text)
