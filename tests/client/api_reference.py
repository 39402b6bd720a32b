"""The members of the public API, and their docstrings and annotations: for the tests that compare them."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from types import ModuleType
from typing import Any

SECTION = re.compile(r"(Args|Raises)\b.*")
ENTRY = re.compile(r" {4}(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): (.*)")


def public_members(cls: type) -> dict[str, Any]:
    """Return the methods, properties and class methods of a class that are raftlog's own and public."""
    found = {}
    for each in reversed(cls.__mro__):
        if each.__module__.startswith("raftlog"):
            found |= {name: member for name, member in vars(each).items() if is_public(name, member)}
    return found


def is_public(name: str, member: object) -> bool:
    return not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property | classmethod))


def function_of(member: Any) -> Callable[..., Any]:
    """Return the function behind a method or a property."""
    if isinstance(member, property):
        return member.fget
    return member.__func__ if isinstance(member, classmethod) else member


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    own = inspect.signature(function).parameters
    return {name: parameter for name, parameter in own.items() if name not in ("self", "cls")}


class Doc:
    """A docstring in parts."""

    def __init__(self, documented: object) -> None:
        self.text = inspect.cleandoc(documented.__doc__ or "")

    @property
    def summary(self) -> str:
        return self.text.split("\n\n")[0]

    @cached_property
    def arguments(self) -> dict[str, str]:
        return {name: text for kind, name, text in self._entries() if kind == "Args"}

    @cached_property
    def errors(self) -> dict[str, str]:
        return {name: text for kind, name, text in self._entries() if kind == "Raises"}

    def _entries(self) -> Iterator[tuple[str, str, str]]:
        kind, names, said = "", "", ""
        for line in [*self.text.split("\n"), "END"]:
            begins = ENTRY.fullmatch(line) if kind else None
            if (begins or not line.startswith("        ")) and names:
                yield from ((kind, name.lstrip("*"), said) for name in names.split(", "))
                names = ""
            if begins:
                names, said = begins.groups()
            elif names:
                said += " " + line.strip()
            elif not line.startswith(" "):
                section = SECTION.fullmatch(line)
                kind = section[1] if section else ""


def described_fields(cls: type) -> dict[str, str]:
    """Return each field of a class with the string below it, or with its entry in the class's docstring."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    return _described(definition.body) | Doc(cls).arguments


def described_names(module: ModuleType) -> dict[str, str]:
    """Return the names that a module assigns, each with the string below it."""
    return _described(ast.parse(inspect.getsource(module)).body)


def _described(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for statement, after in zip(body, [*body[1:], None], strict=True):
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        if isinstance(target, ast.Name):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            found[target.id] = str(after.value.value) if is_text else ""
    return found


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, as types; this imports what only type checkers import otherwise."""
    plain = inspect.unwrap(function)
    return typing.get_type_hints(plain, _names_of(sys.modules[plain.__module__]))


def reached(classes: Iterable[type]) -> list[type]:
    """Return raftlog's classes among the parameters and results of the classes' methods, and among their fields."""
    found: dict[type, None] = {}
    for cls in classes:
        for member in public_members(cls).values():
            _reach(types_of(function_of(member)).values(), found)
    return list(found)


def _reach(types: Iterable[Any], found: dict[type, None]) -> None:
    for each in types:
        _reach(typing.get_args(each), found)
        if isinstance(each, type) and each.__module__.startswith("raftlog") and each not in found:
            found[each] = None
            _reach(typing.get_type_hints(each, _names_of(sys.modules[each.__module__])).values(), found)


@cache
def _names_of(module: ModuleType) -> dict[str, Any]:
    names = dict(vars(module))
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(statement.body, []), module.__name__, "exec"), names)
    return names
