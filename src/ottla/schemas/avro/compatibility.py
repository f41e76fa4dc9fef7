"""Avro's rules of schema resolution: whether a reader's schema can take what a writer's schema wrote.

The answers, their places and their order are those of Java's SchemaCompatibility.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from ottla.schemas.avro.schema import AvroSchema
from ottla.schemas.avro.types import (
    Array,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    Kind,
    Map,
    Named,
    Record,
    Union,
)
from ottla.schemas.interface import Incompatibility
from ottla.schemas.pairs import Pairs

__all__ = ["avro_incompatibilities"]

_FOUND_MAX = 1_000
"""Incompatibilities that are told; there may be as many as fields times branches."""

_PROMOTIONS = {
    Kind.LONG: {Kind.INT},
    Kind.FLOAT: {Kind.INT, Kind.LONG},
    Kind.DOUBLE: {Kind.INT, Kind.LONG, Kind.FLOAT},
    Kind.BYTES: {Kind.STRING},
    Kind.STRING: {Kind.BYTES},
}
"""What else a reader of a type takes."""

_SENTENCES = {
    "NAME_MISMATCH": "The types at {path} have different names",
    "FIXED_SIZE_MISMATCH": "The fixed type at {path} has another size in the {reader} schema than in the {writer} schema",
    "MISSING_ENUM_SYMBOLS": "The enum at {path} of the {reader} schema has no default and lacks {info} of the {writer}",
    "READER_FIELD_MISSING_DEFAULT_VALUE": (
        "The field {info} at {path} of the {reader} schema has no default, and the {writer} schema has no such field"
    ),
    "TYPE_MISMATCH": "The type at {path} of the {reader} schema cannot take that of the {writer} schema",
    "MISSING_UNION_BRANCH": "The union at {path} of the {reader} schema has no branch for a type of the {writer} schema",
}

_Found = tuple[Incompatibility, ...]
_Index = Mapping[Hashable, Sequence[AvroType]]


def avro_incompatibilities(reader: AvroSchema, writer: AvroSchema) -> list[Incompatibility]:
    """Return why data of the writer cannot be read; empty where it can."""
    return list(_Comparison().pairs.settled(reader.type, writer.type, ()))


class _Comparison:
    def __init__(self) -> None:
        self._branches: dict[int, _Index] = {}
        self.pairs: Pairs[AvroType, tuple[str, ...], Incompatibility] = Pairs(self._bounded, _too_much)

    def compare(self, reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> _Found:
        return self.pairs.compare(reader, writer, path)

    def _bounded(self, reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> _Found:
        return self._calculated(reader, writer, path)[:_FOUND_MAX]

    def _calculated(self, reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> _Found:
        if isinstance(writer, Union):
            return self._from_union(reader, writer, path)
        if isinstance(reader, Union):
            if any(not self.compare(branch, writer, path) for branch in self._candidates(reader, writer)):
                return ()
            return _lacking(writer, path)
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.compare(reader.items, writer.items, (*path, "items"))
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.compare(reader.values, writer.values, (*path, "values"))
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            return _names(reader, writer, path) + _sizes(reader, writer, path)
        if isinstance(reader, Enumeration) and isinstance(writer, Enumeration):
            return _names(reader, writer, path) + _symbols(reader, writer, path)
        if isinstance(reader, Record) and isinstance(writer, Record):
            return _names(reader, writer, path) + self._fields(reader, writer, path)
        if reader.kind is writer.kind or writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return ()
        return _mismatch(reader, writer, path)

    def _candidates(self, reader: Union, writer: AvroType) -> Sequence[AvroType]:
        """Return the branches that may take a type: none of the others does, whatever is in it."""
        index = self._branches.get(id(reader))
        if index is None:
            index = self._branches[id(reader)] = _by_what_they_take(reader)
        if not isinstance(writer, Named):
            return index.get(writer.kind, ())
        own, aliased = (writer.kind, writer.name.simple), (writer.kind, "alias", writer.name.full)
        return (*index.get(own, ()), *index.get(aliased, ()))

    def _from_union(self, reader: AvroType, writer: Union, path: tuple[str, ...]) -> _Found:
        found: list[Incompatibility] = []
        for index, branch in enumerate(writer.branches):
            here = (*path, str(index))
            reasons = self.compare(reader, branch, here)
            found += _lacking(branch, here) if reasons and isinstance(reader, Union) else reasons
        return tuple(found)

    def _fields(self, reader: Record, writer: Record, path: tuple[str, ...]) -> _Found:
        written = {field.name: field for field in writer.fields}
        found: list[Incompatibility] = []
        for index, field in enumerate(reader.fields):
            here = (*path, "fields", str(index))
            source = _written(field, written)
            if source is not None:
                found += self.compare(field.type, source.type, (*here, "type"))
            elif not field.has_default and isinstance(field.type, Enumeration) and field.type.default is not None:
                found += _mismatch(
                    field.type, writer, (*here, "type")
                )  # an enum's default is none of a field; Java's words
            elif not field.has_default:
                found += _found("READER_FIELD_MISSING_DEFAULT_VALUE", here, field.name)
        return tuple(found)


def _by_what_they_take(union: Union) -> _Index:
    """Return a union's branches under the kinds that they take; those with names under kind and name, or kind and alias."""
    found: dict[Hashable, list[AvroType]] = defaultdict(list)
    for branch in union.branches:
        if isinstance(branch, Named):
            found[branch.kind, branch.name.simple].append(branch)
            for alias in branch.aliases:
                found[branch.kind, "alias", alias].append(branch)
        else:
            for kind in (branch.kind, *sorted(_PROMOTIONS.get(branch.kind, ()))):
                found[kind].append(branch)
    return found


def _written(field: Field, written: dict[str, Field]) -> Field | None:
    """Return the writer's field that a reader's field is read from: the one of its name, or of an alias."""
    return next((written[name] for name in (field.name, *field.aliases) if name in written), None)


def _names(reader: Named, writer: Named, path: tuple[str, ...]) -> _Found:
    """Names are compared without their namespaces; a reader's alias is a full name."""
    if reader.name.simple == writer.name.simple or writer.name.full in reader.aliases:
        return ()
    return _found("NAME_MISMATCH", (*path, "name"), f"expected: {writer.name.full}")


def _sizes(reader: Fixed, writer: Fixed, path: tuple[str, ...]) -> _Found:
    if reader.size == writer.size:
        return ()
    return _found("FIXED_SIZE_MISMATCH", (*path, "size"), f"expected: {writer.size}, found: {reader.size}")


def _symbols(reader: Enumeration, writer: Enumeration, path: tuple[str, ...]) -> _Found:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return ()
    return _found("MISSING_ENUM_SYMBOLS", (*path, "symbols"), f"[{', '.join(missing)}]")


def _too_much(path: tuple[str, ...]) -> Incompatibility:
    return _found("TYPE_MISMATCH", path, "too much to be compared")[0]


def _mismatch(reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> _Found:
    info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
    return _found("TYPE_MISMATCH", path, info)


def _lacking(writer: AvroType, path: tuple[str, ...]) -> _Found:
    return _found("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.kind.upper()}")


def _found(kind: str, path: tuple[str, ...], info: str) -> _Found:
    return (Incompatibility(kind, "/" + "/".join(path), _SENTENCES[kind], info),)
