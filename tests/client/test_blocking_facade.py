"""The blocking classes offer what the async ones do, under the same names."""

from __future__ import annotations

import inspect

import pytest

from raftlog import blocking, client


def public_names(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("name", blocking.__all__)
def test_nothing_is_missing(name: str):
    asynchronous, plain = getattr(client, name), getattr(blocking, name)
    assert public_names(plain) == public_names(asynchronous)


@pytest.mark.parametrize("name", blocking.__all__)
def test_arguments_have_the_same_names(name: str):
    asynchronous, plain = getattr(client, name), getattr(blocking, name)
    for method in public_names(plain):
        if not callable(getattr(plain, method)):
            assert not callable(getattr(asynchronous, method))
            continue
        known = inspect.signature(getattr(asynchronous, method)).parameters
        asked = inspect.signature(getattr(plain, method)).parameters.values()
        named = {p.name for p in asked if p.kind is not inspect.Parameter.VAR_KEYWORD}
        assert named <= set(known), method
        passes_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in asked)
        assert passes_on or named | {"flush"} >= set(known), method
