"""Options that a class does not have are refused, with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec

from raftlog.errors import ConfigError

P = ParamSpec("P")


def known_options(init: Callable[P, None]) -> Callable[P, None]:
    """Have a constructor raise `ConfigError` for an unknown keyword, rather than Python's bare TypeError."""
    known = [name for name in init.__annotations__ if name != "return"]

    @wraps(init)
    def checked(*arguments: P.args, **options: P.kwargs) -> None:
        for name in options:
            if name not in known:
                nearest = get_close_matches(name, known, n=1)
                hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(sorted(known))}"
                raise ConfigError(f"unknown option {name!r}: {hint}")
        init(*arguments, **options)

    return checked


def require_at_least(least: int, **options: object) -> None:
    """Check that options are whole numbers, none below `least`.

    Raises:
        ConfigError: one is not.
    """
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name}: expected a whole number, at least {least}, received {value!r}")
