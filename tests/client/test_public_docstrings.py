"""The reference leaves no question open: every public name, parameter, field and error code has a sentence."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from inspect import isfunction
from typing import Any

import pytest
from api_reference import Doc, described_fields, described_names, function_of, parameters, public_members, reached

import raftlog
from raftlog import blocking, errors
from raftlog.blocking.producer import Transaction
from raftlog.client import partitioning, transactions

REACHED = reached([raftlog.Admin, raftlog.Consumer, raftlog.Producer, transactions.Transaction])
"""What the methods take and return: much of it is not among the names of the package."""
PUBLIC = [
    *(getattr(raftlog, name) for name in raftlog.__all__ if name != "Partitioner"),
    *(getattr(blocking, name) for name in blocking.__all__),
    *REACHED,
    Transaction,
    *(error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.RaftlogError)),
]
CLASSES = list(dict.fromkeys(each for each in PUBLIC if isinstance(each, type)))
FUNCTIONS = [each for each in PUBLIC if isfunction(each)]
METHODS = [
    pytest.param(member, id=f"{cls.__module__.split('.')[1]}.{cls.__name__}.{name}")
    for cls in CLASSES
    if not issubclass(cls, Enum)
    for name, member in public_members(cls).items()
]
CONSTRUCTED = [raftlog.Admin, raftlog.Consumer, raftlog.Producer, raftlog.RaftlogError]
CONSTRUCTED += [blocking.Admin, blocking.Consumer, blocking.Producer]
WITH_FIELDS = [cls for cls in CLASSES if is_dataclass(cls) or issubclass(cls, tuple | Enum)]


def is_said(text: str) -> bool:
    return len(text.split()) >= 2 and text.rstrip().endswith((".", "`", ")"))


def require_described(documented: Any, asked: list[str]) -> None:
    doc = Doc(documented)
    assert is_said(doc.summary)
    assert [name for name in asked if not is_said(doc.arguments.get(name, ""))] == []
    assert doc.arguments.keys() <= set(asked), "there are no such parameters"
    assert [name for name, text in doc.errors.items() if not is_said(text)] == []
    assert [name for name in doc.errors if not is_error(name)] == []


def is_error(name: str) -> bool:
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    if name.startswith("asyncio."):
        found = getattr(asyncio, name.removeprefix("asyncio."), None)
    return isinstance(found, type) and issubclass(found, BaseException)


@pytest.mark.parametrize("cls", CLASSES)
def test_classes_are_described(cls: type):
    asked = list(parameters(cls.__init__)) if cls in CONSTRUCTED else []
    require_described(cls, asked or list(Doc(cls).arguments))


@pytest.mark.parametrize("cls", WITH_FIELDS)
def test_fields_are_described(cls: Any):
    described = described_fields(cls)
    names = getattr(cls, "_fields", None) or getattr(cls, "__dataclass_fields__", None) or cls.__members__
    public = [name for name in names if not name.startswith("_")]
    assert [name for name in public if not is_said(described.get(name, ""))] == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_described(function: Callable[..., Any]):
    require_described(function, list(parameters(function)))


@pytest.mark.parametrize("member", METHODS)
def test_methods_are_described(member: Any):
    function = function_of(member)
    require_described(function, list(parameters(function)))


def test_a_partitioner_is_described():
    assert is_said(described_names(partitioning)["Partitioner"])


@pytest.mark.parametrize("module", ["raftlog", "raftlog.blocking", "raftlog.client", "raftlog.errors"])
def test_modules_are_described(module: str):
    assert is_said(Doc(sys.modules[module]).summary)
