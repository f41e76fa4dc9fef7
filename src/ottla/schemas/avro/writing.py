"""From Avro's types to text: as Java's `Schema.toString` has it, and with everything in one order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ottla.schemas.avro.defaults import settled_default
from ottla.schemas.avro.types import (
    PRIMITIVES,
    Array,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    Kind,
    Map,
    Name,
    Named,
    Primitive,
    Record,
    Union,
)
from ottla.schemas.json_text import text_of, write_json

__all__ = ["canonical_text", "normalized_text"]


def canonical_text(schema: AvroType, referenced: Collection[str] = ()) -> str:
    """Return the text that Java's `Schema.toString` gives; types that are defined elsewhere stand by their name only."""
    return _Writer(referenced, sort=False).text(schema)


def normalized_text(schema: AvroType, referenced: Collection[str] = ()) -> str:
    """Return the text in which also aliases, unknown attributes and what is in them are sorted."""
    return _Writer(referenced, sort=True).text(schema)


class _Writer:
    def __init__(self, known: Collection[str], *, sort: bool) -> None:
        self._known = set(known)
        self._sort = sort
        self._parts: list[str] = []

    def text(self, schema: AvroType) -> str:
        self._type(schema, "")
        return "".join(self._parts)

    def _put(self, *parts: str) -> None:
        self._parts += parts

    def _type(self, schema: AvroType, namespace: str) -> None:
        if isinstance(schema, Named):
            self._named(schema, namespace)
        elif isinstance(schema, Union):
            self._put("[")
            for index, branch in enumerate(schema.branches):
                self._put("," if index else "")
                self._type(branch, namespace)
            self._put("]")
        elif isinstance(schema, Array):
            self._put('{"type":"array","items":')
            self._type(schema.items, namespace)
            self._props(schema)
            self._put("}")
        elif isinstance(schema, Map):
            self._put('{"type":"map","values":')
            self._type(schema.values, namespace)
            self._props(schema)
            self._put("}")
        elif schema.props:
            self._put('{"type":', text_of(schema.kind))
            self._props(schema)
            self._put("}")
        else:
            self._put(text_of(schema.kind))

    def _named(self, schema: Named, namespace: str) -> None:
        if schema.name.full in self._known:
            self._put(text_of(_referred(schema.name, namespace)))
            return
        self._known.add(schema.name.full)
        is_error = isinstance(schema, Record) and schema.is_error and not self._sort
        kind = "error" if is_error else str(schema.kind)
        self._put('{"type":', text_of(kind), ',"name":', text_of(schema.name.simple))
        if schema.name.namespace != namespace:
            self._put(',"namespace":', text_of(schema.name.namespace))
        if schema.doc is not None and not (self._sort and not schema.doc):
            self._put(',"doc":', text_of(schema.doc))
        if isinstance(schema, Record):
            self._put(',"fields":[')
            for index, field in enumerate(schema.fields):
                self._put("," if index else "")
                self._field(field, schema.name.namespace)
            self._put("]")
        elif isinstance(schema, Enumeration):
            self._put(',"symbols":', write_json(list(schema.symbols)))
            if schema.default is not None:
                self._put(',"default":', text_of(schema.default))
        else:
            self._put(',"size":', str(schema.size))
        self._props(schema)
        self._aliases([_alias(each, schema.name.namespace) for each in self._ordered(schema.aliases)])
        self._put("}")

    def _field(self, field: Field, namespace: str) -> None:
        self._put('{"name":', text_of(field.name), ',"type":')
        self._type(field.type, namespace)
        if field.doc is not None:
            self._put(',"doc":', text_of(field.doc))
        if field.has_default:
            self._put(',"default":', self._default(field))
        if field.order != "ascending":
            self._put(',"order":', text_of(field.order))
        self._aliases(self._ordered(field.aliases))
        self._props(field)
        self._put("}")

    def _default(self, field: Field) -> str:
        return write_json(settled_default(field.type, field.default) if self._sort else field.default, sort=self._sort)

    def _ordered(self, names: Sequence[str]) -> Sequence[str]:
        return sorted(names) if self._sort else names

    def _aliases(self, names: Sequence[str]) -> None:
        if names:
            self._put(',"aliases":', write_json(list(names)))

    def _props(self, owner: Primitive | Array | Map | Named | Field) -> None:
        keys = list(owner.props)
        if self._sort:
            first = _logical_keys(owner) if isinstance(owner, Primitive | Fixed) else ()
            keys.sort(key=lambda key: (key not in first, first.index(key) if key in first else 0, key))
        for key in keys:
            self._put(",", text_of(key), ":", write_json(owner.props[key], sort=self._sort))


def _referred(name: Name, namespace: str) -> str:
    """Return how a type is named inside a namespace; a name that a primitive type also has is said in full."""
    return name.simple if name.namespace == namespace and name.simple not in PRIMITIVES else name.full


def _alias(full: str, namespace: str) -> str:
    space, dot, simple = full.rpartition(".")
    return simple if dot and space == namespace else full


_LOGICAL: dict[str, tuple[Kind, ...]] = {
    "uuid": (Kind.STRING, Kind.FIXED),
    "date": (Kind.INT,),
    "time-millis": (Kind.INT,),
    **dict.fromkeys(
        (
            *("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"),
            *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
        ),
        (Kind.LONG,),
    ),
    "big-decimal": (Kind.BYTES,),
    "duration": (Kind.FIXED,),
    "decimal": (Kind.BYTES, Kind.FIXED),
}


def _logical_keys(schema: Primitive | Fixed) -> tuple[str, ...]:
    """Return the attributes that make a logical type, or none where they make no valid one."""
    logical = schema.props.get("logicalType")
    if not isinstance(logical, str) or schema.kind not in _LOGICAL.get(logical, ()):
        return ()
    if logical != "decimal":
        return ("logicalType",)
    precision, scale = schema.props.get("precision"), schema.props.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return ()
    return ("logicalType", "precision", "scale") if scale else ("logicalType", "precision")
