"""Whether what one Protobuf schema wrote is understood with another: differences by the names of Confluent's registry.

Fields are known by their numbers. What may change without harm (a field's name, a field that comes or goes, enums) is
not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from ottla.schemas.interface import Incompatibility
from ottla.schemas.pairs import Pairs
from ottla.schemas.protobuf.schema import ProtobufSchema

__all__ = ["protobuf_incompatibilities"]

_Field = FieldDescriptorProto
_FOUND_MAX = 1_000

_NUMBERS = {
    **dict.fromkeys((_Field.TYPE_SINT32, _Field.TYPE_SINT64), "zigzag"),
    **dict.fromkeys((_Field.TYPE_STRING, _Field.TYPE_BYTES), "text"),
    **dict.fromkeys((_Field.TYPE_FIXED32, _Field.TYPE_SFIXED32), "fixed32"),
    **dict.fromkeys((_Field.TYPE_FIXED64, _Field.TYPE_SFIXED64), "fixed64"),
    _Field.TYPE_FLOAT: "float",
    _Field.TYPE_DOUBLE: "double",
}
"""What a scalar is on the wire; all others are plain varints, enums too."""
_MESSAGES = (_Field.TYPE_MESSAGE, _Field.TYPE_GROUP)

_SENTENCES = {
    "PACKAGE_CHANGED": "The {reader} schema is of another package than the {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema lacks the message at {path} of the {writer} schema",
    "FIELD_KIND_CHANGED": "The field at {path} is of another kind in the {reader} schema than in the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": (
        "The field at {path} of the {reader} schema is another scalar on the wire than in the {writer} schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": "The field at {path} is of another message in the {reader} than in the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The number at {path} is repeated in one of the {reader} and the {writer} schema, and not in the other"
    ),
    "REQUIRED_FIELD_ADDED": "The field at {path} is required in the {reader} schema and not in the {writer} schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema lacks the field at {path}, which the {writer} schema requires",
    "ONEOF_FIELD_REMOVED": "The oneof at {path} of the {reader} schema lacks a field of the {writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "The oneof at {path} of the {reader} schema takes in more than one field that is by itself in the {writer} schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "The oneof at {path} of the {reader} schema takes in a field that is by itself in the {writer} schema"
    ),
}


@dataclass(frozen=True)
class _Change:
    kind: str
    path: tuple[str, ...] = ()
    is_elsewhere: bool = False
    """In a file that is imported; the path begins there."""


_Changes = tuple[_Change, ...]


def protobuf_incompatibilities(reader: ProtobufSchema, writer: ProtobufSchema) -> list[Incompatibility]:
    """Return why bytes of the writer may be misunderstood by the reader; empty where they are not."""
    comparison = _Comparison(_Side(writer), _Side(reader))
    found = (*_package(writer, reader), *comparison.pairs.settled(writer.file, reader.file, None))
    return [
        Incompatibility(each.kind, "/".join(("#", *(each.path or ("",)))), _SENTENCES[each.kind])
        for each in found[:_FOUND_MAX]
    ]


def _package(old: ProtobufSchema, new: ProtobufSchema) -> _Changes:
    return (_Change("PACKAGE_CHANGED"),) if old.file.package != new.file.package else ()


@dataclass(frozen=True)
class _Type:
    message: Any
    package: str
    is_imported: bool


class _Side:
    """The messages of a schema and of what it imports, by their full names."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self.package = schema.file.package
        self._types: dict[str, _Type] = {}
        for file in (*schema.imported, schema.file):
            for message in file.message_type:
                self._add(message, file.package, file.package, is_imported=file is not schema.file)

    def _add(self, message: Any, scope: str, package: str, *, is_imported: bool) -> None:
        full = f"{scope}.{message.name}" if scope else message.name
        self._types[f".{full}"] = _Type(message, package, is_imported)
        for nested in message.nested_type:
            self._add(nested, full, package, is_imported=is_imported)

    def type_of(self, field: Any) -> _Type:
        """Return the message that a field is of."""
        return self._types[field.type_name]

    def map_of(self, field: Any) -> Any | None:
        """Return the key and the value of a map's field, or None for another."""
        if field.type not in _MESSAGES:
            return None
        message = self.type_of(field).message
        return message if message.options.map_entry else None

    def local_name(self, field: Any) -> str:
        """Return the name of a field's message without its package."""
        package = self.type_of(field).package
        return str(field.type_name).removeprefix(f".{package}." if package else ".")


class _Comparison:
    def __init__(self, old: _Side, new: _Side) -> None:
        self._old = old
        self._new = new
        self.pairs: Pairs[Any, None, _Change] = Pairs(self._calculated, lambda _: _Change("FIELD_NAMED_TYPE_CHANGED"))

    def _calculated(self, old: Any, new: Any, _: None) -> _Changes:
        """Compare two messages, or two files."""
        if hasattr(old, "message_type"):
            return self.messages(old.message_type, new.message_type)
        return (*self._fields(old, new), *self.messages(old.nested_type, new.nested_type))[:_FOUND_MAX]

    def messages(self, old: Any, new: Any) -> _Changes:
        """Compare the messages of a file, or inside one, by their names."""
        later = {each.name: each for each in new}
        found: list[_Change] = []
        for each in old:
            if each.options.map_entry:
                continue
            if each.name not in later:
                found.append(_Change("MESSAGE_REMOVED", (each.name,)))
            else:
                found += _under(self.pairs.compare(each, later[each.name], None), each.name)
        return tuple(found)

    def _fields(self, old: Any, new: Any) -> _Changes:
        before, after = _Fields(old), _Fields(new)
        found = [*_moved(before, after), *_removed_from_oneofs(before, after)]
        for number in sorted({*before.by_number, *after.by_number}):
            earlier, later = before.by_number.get(number), after.by_number.get(number)
            changes = self._field(earlier, later) if earlier and later else _come_or_gone(earlier, later)
            found += _under(changes, str(number))
        return tuple(found)

    def _field(self, old: Any, new: Any) -> _Changes:
        found = list(_labels(old, new, is_map=self._old.map_of(old) is not None or self._new.map_of(new) is not None))
        return (*found, *self._types(old, new))

    def _types(self, old: Any, new: Any) -> _Changes:
        earlier, later = self._old.map_of(old), self._new.map_of(new)
        if earlier is not None and later is not None:
            pairs = zip(_sorted(earlier), _sorted(later), strict=True)
            return tuple(change for before, after in pairs for change in self._types(before, after))
        kinds = {_kind(old, earlier), _kind(new, later)}
        if len(kinds) > 1:
            return (_Change("FIELD_KIND_CHANGED"),)
        if kinds == {"message"}:
            return self._message_types(old, new)
        if _NUMBERS.get(old.type) != _NUMBERS.get(new.type):
            return (_Change("FIELD_SCALAR_KIND_CHANGED"),)
        return ()

    def _message_types(self, old: Any, new: Any) -> _Changes:
        if self._old.local_name(old) != self._new.local_name(new):
            return (_Change("FIELD_NAMED_TYPE_CHANGED"),)
        before, after = self._old.type_of(old), self._new.type_of(new)
        if not before.is_imported and not after.is_imported:
            return ()  # compared where it stands
        changes = _under(self.pairs.compare(before.message, after.message, None), *self._new.local_name(new).split("."))
        elsewhere = [replace(each, is_elsewhere=True) for each in changes]
        return (*elsewhere, _Change("FIELD_NAMED_TYPE_CHANGED")) if elsewhere else ()


class _Fields:
    """The fields of a message by their numbers, and the oneof that each is in."""

    def __init__(self, message: Any) -> None:
        self.by_number = {each.number: each for each in message.field}
        self.oneof_of = {
            each.number: str(message.oneof_decl[each.oneof_index].name)
            for each in message.field
            if each.HasField("oneof_index") and not each.proto3_optional
        }
        self.oneofs: Mapping[str, set[int]] = {
            name: {number for number, each in self.oneof_of.items() if each == name}
            for name in dict.fromkeys(self.oneof_of.values())
        }


def _moved(before: _Fields, after: _Fields) -> Iterator[_Change]:
    """Yield where fields that could be set together now exclude each other."""
    for name, numbers in after.oneofs.items():
        moved = {each for each in numbers if each in before.by_number and each not in before.oneof_of}
        if len(moved) > 1:
            yield _Change("MULTIPLE_FIELDS_MOVED_TO_ONEOF", (name,))
        elif moved and numbers & before.oneof_of.keys():
            yield _Change("FIELD_MOVED_TO_EXISTING_ONEOF", (name,))


def _removed_from_oneofs(before: _Fields, after: _Fields) -> Iterator[_Change]:
    for name, numbers in before.oneofs.items():
        for number in sorted(numbers - after.oneofs[name]) if name in after.oneofs else ():
            yield _Change("ONEOF_FIELD_REMOVED", (name, str(number)))


def _come_or_gone(old: Any, new: Any) -> _Changes:
    if old is not None and old.label == _Field.LABEL_REQUIRED:
        return (_Change("REQUIRED_FIELD_REMOVED"),)
    if new is not None and new.label == _Field.LABEL_REQUIRED:
        return (_Change("REQUIRED_FIELD_ADDED"),)
    return ()


def _labels(old: Any, new: Any, *, is_map: bool) -> _Changes:
    found: list[_Change] = []
    if new.label == _Field.LABEL_REQUIRED and old.label != _Field.LABEL_REQUIRED:
        found.append(_Change("REQUIRED_FIELD_ADDED"))
    repeated = {old.label == _Field.LABEL_REPEATED, new.label == _Field.LABEL_REPEATED}
    is_number = old.type not in _MESSAGES and _NUMBERS.get(old.type) != "text"
    if len(repeated) > 1 and is_number and not is_map:
        found.append(_Change("FIELD_NUMERIC_LABEL_CHANGED"))
    return tuple(found)


def _kind(field: Any, entry: Any | None) -> str:
    if entry is not None:
        return "map"
    return "message" if field.type in _MESSAGES else "scalar"


def _sorted(entry: Any) -> list[Any]:
    return sorted(entry.field, key=lambda each: int(each.number))


def _under(changes: _Changes, *path: str) -> list[_Change]:
    return [each if each.is_elsewhere else _Change(each.kind, (*path, *each.path)) for each in changes]
