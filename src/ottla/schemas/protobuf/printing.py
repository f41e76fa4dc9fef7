"""From a file's descriptor to its text, which the compiler makes the same descriptor of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from google.protobuf.descriptor_pb2 import Edition, FieldDescriptorProto

from ottla.schemas.interface import InvalidSchemaError
from ottla.schemas.protobuf.names import Names, identifier
from ottla.schemas.protobuf.options import option_texts, quoted

__all__ = ["PLAIN", "Style", "file_text"]

_Field = FieldDescriptorProto
_SCALARS = {
    getattr(_Field, f"TYPE_{name.upper()}"): name
    for name in (
        *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes"),
        *("uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}
_FIELD_NUMBER_END = 536_870_912
_ENUM_NUMBER_MAX = 2_147_483_647
_DEFAULT = re.compile(r"-?[A-Za-z0-9_.+-]+")
_VISIBILITY = {1: "local ", 2: "export "}


@dataclass(frozen=True)
class Style:
    """How a text is printed."""

    full_names: bool = False
    """Types by their full names behind a dot; imports, options, fields and what is reserved in order."""
    extensions: bool = True
    """Extensions, the room for them, and options that are some."""


PLAIN = Style()


@dataclass
class _Printer:
    names: Names
    package: str
    syntax: str
    style: Style
    lines: list[str] = field(default_factory=list)
    indent: str = ""

    def put(self, line: str) -> None:
        self.lines.append(f"{self.indent}{line}" if line else "")

    def inside(self) -> _Printer:
        """Return a printer of the same lines, two columns further in."""
        return _Printer(self.names, self.package, self.syntax, self.style, self.lines, self.indent + "  ")

    def type_name(self, name: str, scope: str) -> str:
        parts = name.removeprefix(".").split(".")
        full = ".".join(identifier(part) for part in parts)
        if not name.startswith("."):
            return full  # of a descriptor that somebody made by hand
        return name if self.style.full_names else self.names.said(full, scope, self.package)

    def options(self, options: Any, scope: str) -> list[str]:
        found = option_texts(options, self.names, scope, extensions=self.style.extensions)
        return sorted(found) if self.style.full_names else found

    def in_order(self, values: Iterable[Any], key: str) -> Sequence[Any]:
        return sorted(values, key=lambda each: getattr(each, key)) if self.style.full_names else list(values)


def file_text(file: Any, others: Iterable[Any], style: Style = PLAIN) -> str:
    """Return the text of a file's descriptor; the others are of what it imports, so that names are said unmistakably."""
    syntax = file.syntax or "proto2"
    printer = _Printer(Names([file, *others]), file.package, syntax, style)
    word = f'edition = "{Edition.Name(file.edition).removeprefix("EDITION_")}"' if syntax == "editions" else None
    printer.put(f"{word or f'syntax = {quoted(syntax)}'};")
    if file.package:
        printer.put(f"package {'.'.join(identifier(part) for part in file.package.split('.'))};")
    _section(printer, _imports(file, style))
    _section(printer, [f"option {each};" for each in printer.options(file.options, file.package)])
    if file.message_type or file.enum_type:
        printer.put("")
    for enum, message in _types(file, style):
        if message is not None:
            _message(printer, message, file.package)
        else:
            _enum(printer, enum, file.package)
    if file.extension and style.extensions:
        printer.put("")
        _extends(printer, file.extension, _Scope(file.package))
    if file.service:
        printer.put("")
    for service in file.service:
        _service(printer, service, file.package)
    return "\n".join(printer.lines) + "\n"


def _section(printer: _Printer, lines: Sequence[str]) -> None:
    if lines:
        printer.put("")
    for line in lines:
        printer.put(line)


def _imports(file: Any, style: Style) -> list[str]:
    words = {**dict.fromkeys(file.weak_dependency, "weak "), **dict.fromkeys(file.public_dependency, "public ")}
    found = [f"import {words.get(index, '')}{quoted(name)};" for index, name in enumerate(file.dependency)]
    found += [f"import option {quoted(name)};" for name in file.option_dependency]
    return sorted(found) if style.full_names else found


def _types(file: Any, style: Style) -> Iterator[tuple[Any, Any]]:
    """Yield (enum, None) and (None, message): messages in their order, which messages on the wire are found by."""
    for message in file.message_type:
        yield None, message
    for enum in file.enum_type:
        yield enum, None


class _Scope:
    """Where fields are printed: in a message, or in a file."""

    def __init__(self, full: str, message: Any | None = None) -> None:
        self.full = full
        self.nested = list(message.nested_type) if message is not None else []
        self.printed = 0
        """Of the messages inside, those at the beginning that are printed, or come with a field."""
        indexes = {f".{full}.{each.name}": index for index, each in enumerate(self.nested)}
        members = (*message.field, *message.extension) if message is not None else ()
        self._brought = {
            each.type_name: indexes[each.type_name]
            for each in members
            if each.type_name in indexes
            and (each.type == _Field.TYPE_GROUP or _is_entry(self.nested[indexes[each.type_name]]))
        }
        self._brought_indexes = set(self._brought.values())

    def index_of(self, each: Any) -> int | None:
        """Return the index of the message that a field brings along, a map's entry or a group's."""
        return self._brought.get(each.type_name)

    def until(self, index: int) -> Iterator[Any]:
        """Yield the messages before an index that are not printed yet and come with no field."""
        while self.printed < index:
            self.printed += 1
            if self.printed - 1 not in self._brought_indexes:
                yield self.nested[self.printed - 1]


def _is_entry(message: Any) -> bool:
    return bool(message.options.map_entry)


def _message(printer: _Printer, message: Any, outer: str, head: str | None = None) -> None:
    scope = _Scope(f"{outer}.{message.name}" if outer else message.name, message)
    visible = _VISIBILITY.get(getattr(message, "visibility", 0), "")
    printer.put(f"{head or f'{visible}message {identifier(message.name)}'} {{")
    inner = printer.inside()
    _reserved(inner, message)
    for option in inner.options(message.options, scope.full):
        inner.put(f"option {option};")
    _fields(inner, message, scope)
    if printer.style.extensions:
        _extension_ranges(inner, message, scope.full)
        _extends(inner, message.extension, scope)
    _nested(inner, scope, len(scope.nested))
    for each in message.enum_type:
        _gap(inner)
        _enum(inner, each, scope.full)
    printer.put("}")


def _gap(printer: _Printer) -> None:
    """Leave a line before a type, where something stands before it."""
    if not printer.lines[-1].endswith("{"):
        printer.put("")


def _nested(printer: _Printer, scope: _Scope, until: int) -> None:
    """Print the messages inside a message that stand before an index.

    What a field brings along is, to readers, a message like the others, which they find by its index: so the text keeps
    the order of both.
    """
    for each in scope.until(until):
        _gap(printer)
        _message(printer, each, scope.full)


def _fields(printer: _Printer, message: Any, scope: _Scope) -> None:
    """Print fields in their order; those of a oneof stand together where the first of them does."""
    begun: set[int] = set()
    for each in printer.in_order(message.field, "number"):
        if not each.HasField("oneof_index") or each.proto3_optional:
            _field(printer, each, scope)
        elif each.oneof_index not in begun:
            begun.add(each.oneof_index)
            if not 0 <= each.oneof_index < len(message.oneof_decl):
                raise InvalidSchemaError(f"The field {each.name!r} is of no oneof")
            fields = [other for other in message.field if _is_of(other, each.oneof_index)]
            for other in fields:
                _brought(printer, other, scope)
            _oneof(printer, message.oneof_decl[each.oneof_index], fields, scope)


def _is_of(each: Any, index: int) -> bool:
    return bool(each.HasField("oneof_index") and each.oneof_index == index and not each.proto3_optional)


def _brought(printer: _Printer, each: Any, scope: _Scope) -> Any | None:
    """Return the message that a field brings along, once those before it are printed."""
    index = scope.index_of(each)
    if index is None:
        return None
    _nested(printer, scope, index)
    return scope.nested[index]


def _reserved(printer: _Printer, holder: Any) -> None:
    last = 1 if hasattr(holder, "field") else 0  # a message's ranges end before their end, an enum's at it
    end = _FIELD_NUMBER_END - 1 if last else _ENUM_NUMBER_MAX
    ranges = [_range(each.start, each.end - last, end) for each in printer.in_order(holder.reserved_range, "start")]
    if ranges:
        printer.put(f"reserved {', '.join(ranges)};")
    names = sorted(holder.reserved_name) if printer.style.full_names else list(holder.reserved_name)
    if names:
        said = [identifier(name) if printer.syntax == "editions" else quoted(name) for name in names]
        printer.put(f"reserved {', '.join(said)};")


def _range(start: int, last: int, most: int) -> str:
    return str(start) if start == last else f"{start} to {'max' if last >= most else last}"


def _extension_ranges(printer: _Printer, message: Any, scope: str) -> None:
    for each in printer.in_order(message.extension_range, "start"):
        options = printer.options(each.options, scope)
        more = f" [{', '.join(options)}]" if options else ""
        printer.put(f"extensions {_range(each.start, each.end - 1, _FIELD_NUMBER_END - 1)}{more};")


def _oneof(printer: _Printer, oneof: Any, fields: Sequence[Any], scope: _Scope) -> None:
    printer.put(f"oneof {identifier(oneof.name)} {{")
    inner = printer.inside()
    for option in inner.options(oneof.options, scope.full):
        inner.put(f"option {option};")
    for each in inner.in_order(fields, "number"):
        _field(inner, each, scope)
    printer.put("}")


def _extends(printer: _Printer, extensions: Iterable[Any], scope: _Scope) -> None:
    for extendee, fields in groupby(extensions, key=lambda each: str(each.extendee)):
        members = list(fields)
        for each in members:
            _brought(printer, each, scope)
        printer.put(f"extend {printer.type_name(extendee, scope.full)} {{")
        for each in members:
            _field(printer.inside(), each, scope)
        printer.put("}")


def _field(printer: _Printer, each: Any, scope: _Scope) -> None:
    entry = _brought(printer, each, scope)
    details = _details(printer, each, scope.full)
    more = f" [{', '.join(details)}]" if details else ""
    if each.type == _Field.TYPE_GROUP:
        if entry is None:
            raise InvalidSchemaError(
                f"The group {each.name!r} is an extension outside of a message, which is not taken here"
            )
        head = f"{_label(printer, each)}group {identifier(entry.name)} = {each.number}{more}"
        _message(printer, entry, scope.full, head)
        return
    if entry is not None:
        words = {part.name: _type(printer, part, scope.full) for part in entry.field}
        if words.keys() != {"key", "value"}:
            raise InvalidSchemaError(f"The entry of the map {each.name!r} is no key and value")
        kind = f"map<{words['key']}, {words['value']}>"
    else:
        kind = _label(printer, each) + _type(printer, each, scope.full)
    printer.put(f"{kind} {identifier(each.name)} = {each.number}{more};")


def _label(printer: _Printer, each: Any) -> str:
    if each.label == _Field.LABEL_REPEATED:
        return "repeated "
    if each.proto3_optional:
        return "optional "
    if printer.syntax != "proto2" or each.HasField("oneof_index"):
        return ""
    return "required " if each.label == _Field.LABEL_REQUIRED else "optional "


def _type(printer: _Printer, each: Any, scope: str) -> str:
    return _SCALARS.get(each.type) or printer.type_name(each.type_name, scope)


def _details(printer: _Printer, each: Any, scope: str) -> list[str]:
    found = [f"default = {_default(each)}"] if each.HasField("default_value") else []
    if each.HasField("json_name") and not each.extendee and each.json_name != _json_name(each.name):
        found.append(f"json_name = {quoted(each.json_name)}")
    return found + printer.options(each.options, scope)


def _default(each: Any) -> str:
    if each.type == _Field.TYPE_STRING:
        return quoted(each.default_value)
    if each.type == _Field.TYPE_BYTES:
        return f'"{_escaped_bytes(each.default_value)}"'
    if not _DEFAULT.fullmatch(each.default_value):
        raise InvalidSchemaError(f"The default of {each.name!r} is no value")
    return str(each.default_value)


def _escaped_bytes(text: str) -> str:
    """Return bytes as a descriptor writes them, escaped already; what could end the string is refused."""
    if re.search(r'(?<!\\)(\\\\)*"|[\n\r]|(?<!\\)(\\\\)*\\$', text):
        raise InvalidSchemaError("A default of bytes is not escaped")
    return text


def _json_name(name: str) -> str:
    return re.sub(r"_+(.?)", lambda match: match.group(1).upper(), name)


def _enum(printer: _Printer, enum: Any, scope: str) -> None:
    visible = _VISIBILITY.get(getattr(enum, "visibility", 0), "")
    printer.put(f"{visible}enum {identifier(enum.name)} {{")
    inner = printer.inside()
    _reserved(inner, enum)
    for option in inner.options(enum.options, scope):
        inner.put(f"option {option};")
    for value in enum.value:
        options = inner.options(value.options, scope)
        more = f" [{', '.join(options)}]" if options else ""
        inner.put(f"{identifier(value.name)} = {value.number}{more};")
    printer.put("}")


def _service(printer: _Printer, service: Any, scope: str) -> None:
    full = f"{scope}.{service.name}" if scope else service.name
    printer.put(f"service {identifier(service.name)} {{")
    inner = printer.inside()
    for option in inner.options(service.options, full):
        inner.put(f"option {option};")
    for method in service.method:
        asked = ("stream " if method.client_streaming else "") + inner.type_name(method.input_type, full)
        given = ("stream " if method.server_streaming else "") + inner.type_name(method.output_type, full)
        options = inner.options(method.options, full)
        inner.put(f"rpc {identifier(method.name)} ({asked}) returns ({given}){' {' if options else ';'}")
        for option in options:
            inner.inside().put(f"option {option};")
        if options:
            inner.put("}")
    printer.put("}")
