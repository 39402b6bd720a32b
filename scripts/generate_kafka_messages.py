"""Generate `raftlog/wire/kafka/messages/` from Kafka's definitions of its messages.

    python scripts/generate_kafka_messages.py              # from the definitions beside this script
    python scripts/generate_kafka_messages.py --jar FILE   # takes the definitions from a kafka-clients jar first

`scripts/install-peers.sh kafka` fetches the jar into .tools/kafka/libs/. Each API is a module with its dataclasses, and
for each struct a function that reads and one that writes each range of versions with the same form.
"""

from __future__ import annotations

import argparse
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from kafka_schema import APIS, LAYOUT, PROTOCOLS, Field, Message, messages, snake, write_definitions

ROOT = Path(__file__).parents[1]
FOLDER = Path("raftlog/wire/kafka/messages")
MADE = "Made by scripts/generate_kafka_messages.py."
USED = ("NO_TAGS", "NULL_STRUCT", "ONE_TAG", "STRUCT_FOLLOWS", "ZERO_UUID", "Records", "Writer", "uuid", "uvarint")
"""What generated modules may import from the writer."""
SELF = "o"
"""The message in generated functions, beside the reader `r` and the writer `w`."""


def modules() -> dict[str, str]:
    """Return the source of each module by its path."""
    found = messages()
    sources = {f"{snake(api)}.py": api_module(api, found) for api in APIS}
    sources["consumer_protocol.py"] = protocol_module([found[name] for name in PROTOCOLS])
    sources["table.py"] = table_module(found)
    sources["__init__.py"] = f'"""Kafka\'s messages, one module for each API. {MADE}"""\n'
    return {str(FOLDER / name): formatted(source) for name, source in sorted(sources.items())}


def formatted(source: str) -> str:
    """Return the source as `make format` leaves it."""
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", "generated.py", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def api_module(api: str, found: dict[str, Message]) -> str:
    """Return the source of an API's module."""
    request, response = found[f"{api}Request"], found[f"{api}Response"]
    assert (request.versions, request.flexible) == (response.versions, response.flexible), api
    title = f"{api} (API {request.api_key}), {span(request)}. {MADE}"
    both = set(request.structs) & set(response.structs)
    writers = [Module(request, both), Module(response, both)]
    return _module(title, writers, ["REQUEST", "RESPONSE"])


def protocol_module(parts: list[Message]) -> str:
    """Return the source of what clients put into JoinGroup and SyncGroup."""
    names = [part.name.removeprefix("ConsumerProtocol").upper() for part in parts]
    both = set.intersection(*(set(part.structs) for part in parts))
    return _module(f"Metadata of consumers in classic groups. {MADE}", [Module(part, both) for part in parts], names)


def span(message: Message) -> str:
    """Return a message's versions in words."""
    first, last = message.versions.first, message.versions.last
    return f"version {first}" if first == last else f"versions {first} to {last}"


def _module(title: str, parts: list[Module], names: list[str]) -> str:
    bodies = [part.source() for part in parts]
    bodies += [part.codec(name) for part, name in zip(parts, names, strict=True)]
    body = "\n\n".join(bodies)
    layouts = sorted({layout for part in parts for layout in part.layouts})
    lines = [f'"""{title}"""', "", "from __future__ import annotations", ""]
    if layouts:
        lines.append("from struct import Struct")
    lines.append(f"from dataclasses import dataclass{', field' if 'field(' in body else ''}")
    lines += ["from typing import Final", "", "from raftlog.wire.kafka.codec import Codec"]
    lines += ["from raftlog.wire.kafka.reader import Reader"]
    chosen = [name for name in USED if re.search(rf"(?<![\w.]){name}\b(?!=)", body)]
    lines += [f"from raftlog.wire.kafka.writer import {', '.join(chosen)}", ""]
    lines += [f'{layout_name(one)} = Struct(">{one}")' for one in layouts]
    lines[3:] = sorted_imports(lines[3:])
    return "\n".join(lines) + "\n\n\n" + body + "\n"


def sorted_imports(lines: list[str]) -> list[str]:
    """Return the lines with the standard library's imports in order."""
    ours = [line for line in lines if line.startswith("from raftlog")]
    standard = sorted(line for line in lines if line.startswith("from ") and line not in ours)
    rest = [line for line in lines if line.startswith("_")]
    return ["", *standard, "", *ours, "", *rest]


def layout_name(layout: str) -> str:
    """Return the name of a module's `Struct`."""
    return "_" + layout.replace("16s", "s").replace("?", "o")


class Module:
    """Writes the source of one message.

    Args:
        both: names of structs that another message of the module has, too: they get the message's name before theirs.
    """

    def __init__(self, message: Message, both: set[str]) -> None:
        self.message = message
        self.layouts: set[str] = set()
        self._classes = {name: f"{message.name}{name}" if name in both else name for name in message.structs}
        self._first: dict[tuple[str, int], int] = {}
        """The first version of the range that a struct's version belongs to."""
        for name in message.structs:
            self._find_ranges(name)

    def _find_ranges(self, name: str) -> None:
        before: object = None
        for version in self.message.struct_versions(name):
            form = self._form(name, version)
            same = form == before and (name, version - 1) in self._first
            self._first[name, version] = self._first[name, version - 1] if same else version
            before = form

    def _form(self, name: str, version: int) -> object:
        """Return what decides the bytes of a struct's version."""
        fields = [
            (
                version in field.versions,
                version in field.tagged,
                version in field.nullable,
                self._first.get((field.type, version)),
            )
            for field in self.message.structs[name]
        ]
        return version in self.message.flexible, fields

    def source(self) -> str:
        """Return classes and functions of all structs."""
        parts = [self._class(name) for name in self.message.structs]
        for name in self.message.structs:
            firsts = sorted({first for (struct, _), first in self._first.items() if struct == name})
            parts += [Function(self, name, first).read() for first in firsts]
            parts += [Function(self, name, first).write() for first in firsts]
        return "\n\n".join(parts)

    def codec(self, constant: str) -> str:
        """Return the table of functions by version."""
        message = self.message
        ranges = [self._first[message.name, version] for version in message.all_versions]
        readers, writers = (
            "".join(f"{self.function(kind, message.name, first)}, " for first in ranges) for kind in ("read", "write")
        )
        named = f'"{message.name}", {message.versions.first}, ({readers}), ({writers})'
        return f"{constant}: Final = Codec({named})"

    def class_name(self, struct: str) -> str:
        return self._classes[struct]

    def function(self, kind: str, struct: str, version: int) -> str:
        """Return the name of the function for a struct's version."""
        return f"_{kind}_{snake(self._classes[struct])}_v{self._first[struct, version]}"

    def _class(self, name: str) -> str:
        message = self.message
        lines = ["@dataclass(slots=True, kw_only=True)", f"class {self._classes[name]}:"]
        lines.append(f'    """{span(message).capitalize() if name == message.name else f"Part of {message.name}"}."""')
        lines.append("")
        lines += [f"    {self._attribute(field)}" for field in message.structs[name]]
        return "\n".join(lines) + "\n"

    def _attribute(self, field: Field) -> str:
        default = field.default
        if default == "[]":
            default = "field(default_factory=list)"
        elif default == f"{field.type}()":
            default = f"field(default_factory={self._classes[field.type]})"
        within = field.versions.within(self.message.versions)
        notes = [] if within == self.message.versions else [str(field.versions)]
        notes += [f"tag {field.tag}"] if field.tagged else []
        return f"{field.name}: {self._annotation(field)} = {default}" + (f"  # {', '.join(notes)}" if notes else "")

    def _annotation(self, field: Field) -> str:
        kinds = {"string": "str", "bool": "bool", "float64": "float", "records": "Records"}
        kinds |= {"bytes": "bytes", "uuid": "bytes"}
        kind = self._classes[field.type] if field.is_struct else kinds.get(field.type, "int")
        kind = f"list[{kind}]" if field.is_array else kind
        return f"{kind} | None" if field.may_be_none else kind


class Function:
    """Writes the two functions of a range of a struct's versions."""

    def __init__(self, module: Module, struct: str, version: int) -> None:
        self.module = module
        self.message = module.message
        self.struct = struct
        self.version = version
        self.flexible = version in self.message.flexible
        self.prefix = "compact_" if self.flexible else ""
        fields = self.message.structs[struct]
        self.present = [one for one in fields if version in one.versions and version not in one.tagged]
        self.tagged = sorted((one for one in fields if version in one.tagged), key=lambda one: one.tag)
        self.absent = [one for one in fields if version not in one.versions and not one.ignorable]
        assert not self.tagged or self.flexible

    def where(self, field: Field) -> str:
        return f'"{self.struct}.{field.name}"'

    def runs(self) -> Iterator[list[Field]]:
        """Yield the fields in order, neighbours of a fixed size together."""
        gathered: list[Field] = []
        for field in self.present:
            if gathered and not (field.is_fixed and gathered[-1].is_fixed):
                yield gathered
                gathered = []
            gathered.append(field)
        if gathered:
            yield gathered

    def layout(self, run: list[Field]) -> str:
        found = "".join(LAYOUT[field.type] for field in run)
        self.module.layouts.add(found)
        return layout_name(found)

    # Reading.

    def read(self) -> str:
        """Return the function that reads."""
        name, result = self.module.function("read", self.struct, self.version), self.module.class_name(self.struct)
        lines = [f"def {name}(r: Reader) -> {result}:"]
        for run in self.runs():
            lines += self._read_run(run) if run[0].is_fixed else self._read(run[0], local(run[0]))
        values = ", ".join(f"{field.name}={local(field)}" for field in self.present)
        if self.tagged:
            lines += [f"{SELF} = {result}({values})", *self._read_tags(), f"return {SELF}"]
        else:
            lines += [f'r.skip_tags("{self.struct}")'] if self.flexible else []
            lines += [f"return {result}({values})"]
        return "\n    ".join(lines) + "\n"

    def _read_run(self, run: list[Field]) -> list[str]:
        targets = "".join(f"{local(field)}, " for field in run)
        targets = targets[:-2] if len(run) > 1 else f"({targets[:-1]})"
        return [f'{targets} = r.take({self.layout(run)}, "{self.struct}.{",".join(field.name for field in run)}")']

    def _read(self, field: Field, target: str) -> list[str]:
        where, nullable = self.where(field), self.version in field.nullable
        if not field.is_array:
            return [f"{target} = {self._read_value(field, nullable=nullable and not field.is_tagged_struct)}"]
        size = self.message.element(field, self.version)
        if not nullable:
            return [f"{target} = {self._read_elements(field, f'r.{self.prefix}count({size}, {where})')}"]
        count = f"n = r.{self.prefix}nullable_count({size}, {where})"
        return [count, f"{target} = None if n < 0 else {self._read_elements(field, 'n')}"]

    def _read_elements(self, field: Field, count: str) -> str:
        if field.type in LAYOUT:
            assert field.type != "uuid"
            return f'r.numbers("{LAYOUT[field.type]}", {count})'
        return f"[{self._read_value(field, nullable=False)} for _ in range({count})]"

    def _read_value(self, field: Field, *, nullable: bool) -> str:
        where = self.where(field)
        if field.is_struct:
            value = f"{self.module.function('read', field.type, self.version)}(r)"
            return f"None if r.is_null({where}) else {value}" if nullable else value
        kind = {"bytes": "octets"}.get(field.type, field.type)
        assert field.type != "records" or nullable
        return f"r.{self.prefix}{'nullable_' if nullable else ''}{kind}({where})"

    def _read_tags(self) -> list[str]:
        lines = [f'for _ in range(r.tag_count("{self.struct}")):', f'    tag, end = r.tag("{self.struct}")']
        for position, field in enumerate(self.tagged):
            lines.append(f"    {'elif' if position else 'if'} tag == {field.tag}:")
            target = f"{SELF}.{field.name}"
            if field.is_fixed:
                steps = [f"({target},) = r.take({self.layout([field])}, {self.where(field)})"]
            else:
                steps = self._read(field, target)
            lines += [f"        {step}" for step in (*steps, f"r.end_tag(end, {self.where(field)})")]
        return [*lines, "    else:", "        r.at = end"]

    # Writing.

    def write(self) -> str:
        """Return the function that writes."""
        name, kind = self.module.function("write", self.struct, self.version), self.module.class_name(self.struct)
        lines = [f"def {name}(w: Writer, {SELF}: {kind}) -> None:"]
        for field in self.absent:
            lines += [f"if {self._is_set(field)}:", f"    raise w.unsupported({self.where(field)})"]
        for run in self.runs():
            lines += self._write_run(run) if run[0].is_fixed else self._write(run[0])
        if self.tagged:
            lines += self._write_tags()
        elif self.flexible:
            lines.append("w.add(NO_TAGS)")
        return "\n    ".join(lines if len(lines) > 1 else [*lines, "pass"]) + "\n"

    def _is_set(self, field: Field) -> str:
        """Return the condition that a field does not have its default."""
        value, default = f"{SELF}.{field.name}", field.default
        if default == "None":
            return f"{value} is not None"
        if default in ("False", "True"):
            return value if default == "False" else f"not {value}"
        if default == f"{field.type}()":
            default = f"{self.module.class_name(field.type)}()"
        return value if default == "[]" and not field.may_be_none else f"{value} != {default}"

    def _write_run(self, run: list[Field]) -> list[str]:
        values = [f"{SELF}.{field.name}" for field in run]
        values = [f"uuid({one})" if field.type == "uuid" else one for one, field in zip(values, run, strict=True)]
        return [f"w.add({self.layout(run)}.pack({', '.join(values)}))"]

    def _write(self, field: Field) -> list[str]:
        value, where, nullable = f"{SELF}.{field.name}", self.where(field), self.version in field.nullable
        if field.is_array:
            return self._write_array(field, value, nullable=nullable)
        if not field.is_struct:
            kind = {"bytes": "octets"}.get(field.type, field.type)
            return [f"w.{self.prefix}{'nullable_' if nullable else ''}{kind}({value}, {where})"]
        function = self.module.function("write", field.type, self.version)
        if field.is_tagged_struct:
            return [f"{function}(w, {value})"]
        if nullable:
            inner = ["    w.add(STRUCT_FOLLOWS)", f"    {function}(w, {value})"]
            return [f"if {value} is None:", "    w.add(NULL_STRUCT)", "else:", *inner]
        return [f"{function}(w, {f'w.not_null({value}, {where})' if field.may_be_none else value})"]

    def _write_array(self, field: Field, value: str, *, nullable: bool) -> list[str]:
        if nullable:
            elements = [f"    {line}" for line in self._write_elements(field, value)]
            return [f"if {value} is None:", f"    w.{self.prefix}count(-1)", "else:", *elements]
        if field.may_be_none:
            name = local(field)
            return [f"{name} = w.not_null({value}, {self.where(field)})", *self._write_elements(field, name)]
        return self._write_elements(field, value)

    def _write_elements(self, field: Field, value: str) -> list[str]:
        count, item = f"w.{self.prefix}count(len({value}))", f"{field.name}_item"
        if field.type in LAYOUT:
            return [count, f'w.numbers("{LAYOUT[field.type]}", {value})']
        if field.is_struct:
            step = f"{self.module.function('write', field.type, self.version)}(w, {item})"
        else:
            step = f"w.{self.prefix}{field.type}({item}, {self.where(field)})"
        return [count, f"for {item} in {value}:", f"    {step}"]

    def _write_tags(self) -> list[str]:
        conditions = [self._is_set(field) for field in self.tagged]
        counted = [one if " " in one else f"bool({one})" for one in conditions]
        total = " + ".join(f"({one})" for one in counted)
        lines = [f"w.add(uvarint({total}))"] if len(counted) > 1 else []
        for field, condition in zip(self.tagged, conditions, strict=True):
            steps = ["w.add(ONE_TAG)"] if len(counted) == 1 else []
            steps += [f"mark = w.begin_tag({field.tag})"]
            steps += self._write_run([field]) if field.is_fixed else self._write(field)
            lines += [f"if {condition}:", *(f"    {step}" for step in (*steps, "w.end_tag(mark)"))]
        return [*lines, "else:", "    w.add(NO_TAGS)"] if len(counted) == 1 else lines


def local(field: Field) -> str:
    """Return the name of a local variable for a field."""
    assert field.name not in ("r", "w", "n", "o", "item", "mark", "tag", "end", "field"), field.name
    return f"{field.name}_" if field.name in dir(builtins) or field.name == "uuid" else field.name


def table_module(found: dict[str, Message]) -> str:
    """Return the source of the table of APIs."""
    lines = [f'"""The table of APIs. {MADE}"""', "", "from __future__ import annotations", ""]
    lines += ["from typing import Final", "", "TABLE: Final = ("]
    for api in sorted(APIS, key=lambda one: found[f"{one}Request"].api_key or 0):
        request, response = found[f"{api}Request"], found[f"{api}Response"]
        last = request.versions.last
        stable = last - (request.is_last_unstable or response.is_last_unstable)
        flexible = request.flexible.first if request.flexible else None
        row = (request.api_key, api, snake(api), request.versions.first, last, stable, flexible)
        lines.append(f"    {row!r},")
    about = "API key, name, module, first version, last version, last stable version, first flexible version"
    return "\n".join([*lines, ")", f'"""{about}."""']) + "\n"


def main(arguments: list[str]) -> None:
    """Write every module that differs, and delete those that are not made any more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jar", type=Path, help="a kafka-clients jar whose definitions replace the committed ones")
    chosen = parser.parse_args(arguments)
    if chosen.jar:
        write_definitions(chosen.jar)
    made = modules()
    for path in (ROOT / FOLDER).glob("*.py"):
        if str(path.relative_to(ROOT)) not in made:
            path.unlink()
            print(f"deleted {path.relative_to(ROOT)}")
    for name, source in made.items():
        target = ROOT / name
        if not target.exists() or target.read_text("utf-8") != source:
            target.write_text(source, "utf-8")
            print(f"wrote {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
