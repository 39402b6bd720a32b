"""The entry point of the `raftlog` command. It reports missing packages of the `cli` extra."""

from __future__ import annotations

import importlib.util
import os
import sys


def main() -> None:
    """Run the command line, or print how to install it."""
    _open_closed_streams()
    missing = [name for name in ("click", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"raftlog: the command line needs {' and '.join(missing)}; install it with: pip install 'raftlog[cli]'\n"
        )
        sys.exit(1)
    from raftlog.cli.main import cli  # noqa: PLC0415  (only after the check that click is installed)

    cli(prog_name="raftlog")


def _open_closed_streams() -> None:
    """Connect closed standard streams to nothing: supervisors and `>&-` close them.

    Otherwise Python has no such stream, and the next socket or file would have its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
