"""`raftlog verify`: numbered records, written and checked (as Kafka's verifiable producer and consumer)."""

from __future__ import annotations

import secrets
import sys
from typing import Any, BinaryIO

import click

from raftlog.cli.producer_options import acks_option, compression_option
from raftlog.cli.remote import bootstrap_option, complete_topics, isolation_option
from raftlog.cli.shared import FiniteRange, failure, run
from raftlog.cli.verifiable_consumer import Verification
from raftlog.cli.verifiable_producer import produce_numbered
from raftlog.cli.verification import Produced, is_producer_name
from raftlog.errors import InvalidRequestError
from raftlog.model import Isolation


@click.group("verify")
def command() -> None:
    """Write numbered records, and check that none is missing, doubled or out of order.

    Both print a line of JSON for whatever happens, and a summary as the last line, also after Ctrl-C or SIGTERM.
    """


@command.command("produce")
@click.option("--topic", required=True, shell_complete=complete_topics)
@click.option("--records", type=click.IntRange(min=1), help="Default: until Ctrl-C.")
@click.option("--rate", type=FiniteRange(min=0, min_open=True), help="Records a second. Default: all at once.")
@click.option("--record-size", type=click.IntRange(min=0), default=0, help="Fill values up to this many bytes.")
@click.option("--producer", "name", help="The name in every record: letters, digits, `-._`. Default: drawn at random.")
@acks_option
@compression_option
@bootstrap_option
def produce(name: str | None, **options: Any) -> None:
    """Send numbered records to each partition in turn, and print the outcome of each.

    Events: started, acknowledged (with its offset), failed (not in the log), unknown (may be in the log), summary. Exit
    code 1 unless all were acknowledged. A name must not be used twice in a topic.
    """
    name = name or f"p-{secrets.token_hex(4)}"
    if not is_producer_name(name):
        raise click.BadParameter(
            f"expected 1 to 100 letters, digits, -, . or _, received {name!r}", param_hint="--producer"
        )
    sys.exit(run(produce_numbered(name, **options)))


@command.command("consume")
@click.option("--topic", required=True, shell_complete=complete_topics)
@click.option("--group", help="As a member of this group, with a commit after each chunk.")
@click.option("--records", type=click.IntRange(min=1), help="Stop after this many; fewer are a failure.")
@click.option("--timeout", type=FiniteRange(min=0), metavar="SECONDS", help="Stop after this long without records.")
@click.option("--produced", type=click.File("rb"), help="Output of `raftlog verify produce`: stop when all is read.")
@isolation_option
@bootstrap_option
def consume(
    topic: str,
    group: str | None,
    records: int | None,
    timeout: float | None,
    produced: BinaryIO | None,
    isolation: Isolation,
    bootstrap: list[str],
) -> None:
    """Read numbered records from the beginning (or where GROUP is), and check them.

    Of each producer and partition, every number must come once and in order. With --produced, failed records must not
    come, unknown ones may be absent, and everything acknowledged must have come by the end. Events: read (a chunk),
    committed, commit_failed, assigned, revoked, lost, violation, summary. Exit code 1 if anything was wrong.
    """
    if group is not None and produced is not None:
        raise click.UsageError("--produced is about whole partitions: not with --group")
    try:
        told = None if produced is None else Produced.read(produced)
    except InvalidRequestError as error:
        raise failure(error) from None
    sys.exit(run(Verification(topic, told, records, timeout).run(bootstrap, group, isolation)))
