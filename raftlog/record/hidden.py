"""Modules that a node hides from pyarrow, which imports them where they are installed; see `broker.node`.

numpy takes 12 MB. A node loads it when the first large batch of Kafka records arrives.
"""

from __future__ import annotations


class HiddenModules:
    """An import finder that hides modules."""

    def __init__(self, *names: str) -> None:
        self._names = set(names)

    def find_spec(self, name: str, *_: object) -> None:
        if name in self._names:
            raise ModuleNotFoundError(f"nodes do not use {name}", name=name)

    def show(self, name: str) -> None:
        """Let a module be imported from now on."""
        self._names.discard(name)


HIDDEN = HiddenModules("numpy", "pandas")
"""The finder of this process; a node adds it to `sys.meta_path`."""
