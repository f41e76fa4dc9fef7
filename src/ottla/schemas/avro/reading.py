"""From JSON to Avro's types, with the checks of Java's parser."""

from __future__ import annotations

import re
from collections.abc import Collection

from ottla.schemas.avro.defaults import DefaultsCheck
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
    Props,
    Record,
    Union,
)
from ottla.schemas.interface import InvalidSchemaError, Limits
from ottla.schemas.json_text import JsonValue, read_json, write_json

__all__ = ["Parser"]

_RESERVED = frozenset({"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"})
_ENUM_RESERVED = _RESERVED | {"default"}
_FIELD_RESERVED = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_ORDERS = {"ascending", "descending", "ignore"}
_SHOWN_MAX = 200
_DECIMAL = r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_HEX = r"0[xX]([0-9a-fA-F]+(\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?\d+"
_DOUBLE = re.compile(rf"[+-]?(NaN|Infinity|({_DECIMAL}|{_HEX})[fFdD]?)", re.ASCII)
_DOUBLE_CHARS_MAX = 1_000
_LAST_OF_JAVA = "\uffff"
"""The last character that Java has as one."""
_INT_MAX = (1 << 31) - 1

_Object = dict[str, JsonValue]


class Parser:
    """Reads texts one after the other; a name that one of them defines is known in those that follow."""

    def __init__(self, limits: Limits, *, check_defaults: bool = True) -> None:
        self._limits = limits
        self._check_defaults = check_defaults
        self._known: dict[str, Named] = {}
        self._defaults = DefaultsCheck(limits.depth_max)
        self._with_default: list[Field] = []

    @property
    def names(self) -> Collection[str]:
        """The full names that are defined so far."""
        return tuple(self._known)

    def parse(self, text: str) -> AvroType:
        """Return the type that a text describes; raises InvalidSchemaError."""
        found = self._type(read_json(text, self._limits, exact=False), "")
        for field in self._with_default if self._check_defaults else ():
            self._defaults.check(field)
        self._with_default.clear()
        return found

    def _type(self, node: JsonValue, namespace: str) -> AvroType:
        if isinstance(node, str):
            return self._named(node, namespace)
        if isinstance(node, list):
            return self._union(node, namespace)
        if not isinstance(node, dict):
            raise InvalidSchemaError(f"No type of Avro's: {_shown(node)}")
        kind = node.get("type")
        if not isinstance(kind, str):
            raise InvalidSchemaError(f"No type: {_shown(node)}")
        match kind:
            case "record" | "error":
                return self._record(node, namespace, is_error=kind == "error")
            case "enum":
                return self._enum(node, namespace)
            case "fixed":
                return self._fixed(node, namespace)
            case "array":
                return Array(self._part(node, "items", namespace), _props(node, _RESERVED))
            case "map":
                return Map(self._part(node, "values", namespace), _props(node, _RESERVED))
        if kind in PRIMITIVES:
            return Primitive(Kind(kind), _props(node, _RESERVED))
        return self._named(kind, namespace)

    def _named(self, word: str, namespace: str) -> AvroType:
        if word in PRIMITIVES:
            return Primitive(Kind(word))
        name = _split(word, namespace)
        found = self._known.get(name.full) or self._known.get(name.simple)
        if found is None:
            raise InvalidSchemaError(f"Undefined schema: {word} (of namespace {name.namespace or 'none'!r})")
        return found

    def _part(self, node: _Object, key: str, namespace: str) -> AvroType:
        if key not in node:
            raise InvalidSchemaError(f"{node['type']} has no {key} type: {_shown(node)}")
        return self._type(node[key], namespace)

    def _union(self, node: list[JsonValue], namespace: str) -> Union:
        branches = []
        seen: set[str] = set()
        for each in node:
            branch = self._type(each, namespace)
            if isinstance(branch, Union):
                raise InvalidSchemaError(f"Nested union: {_shown(node)}")
            key = branch.name.full if isinstance(branch, Named) else str(branch.kind)
            if key in seen:
                raise InvalidSchemaError(f"Duplicate in union: {key}")
            seen.add(key)
            branches.append(branch)
        return Union(tuple(branches))

    def _define(self, named: Named) -> None:
        full = named.name.full
        if full in self._known:
            raise InvalidSchemaError(f"Can't redefine: {full}")
        if full in PRIMITIVES:
            raise InvalidSchemaError(f"Schemas may not be named after primitives: {full}")
        if len(self._known) >= self._limits.names_max:
            raise InvalidSchemaError(f"There are more than {self._limits.names_max} named types")
        self._known[full] = named

    def _record(self, node: _Object, namespace: str, *, is_error: bool) -> Record:
        name = _name_of(node, namespace)
        record = Record(name, _text(node, "doc"), _aliases_of(node, name), is_error, _props(node, _RESERVED))
        self._define(record)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchemaError(f"Record has no fields: {_shown(node)}")
        found: dict[str, Field] = {}
        for each in fields:
            field = self._field(each, name.namespace)
            if field.name in found:
                raise InvalidSchemaError(f"Duplicate field {field.name} in record {name.full}")
            found[field.name] = field
        record.fields = tuple(found.values())
        return record

    def _field(self, node: JsonValue, namespace: str) -> Field:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise InvalidSchemaError(f"No field name: {_shown(node)}")
        name = _checked(str(node["name"]))
        if "type" not in node:
            raise InvalidSchemaError(f"No field type: {_shown(node)}")
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise InvalidSchemaError(f"No order of fields: {_shown(order)}")
        kind = self._type(node["type"], namespace)
        field = Field(
            name,
            kind,
            doc=_text(node, "doc"),
            default=_number(node.get("default"), kind),
            has_default="default" in node,
            order=order.lower(),
            aliases=_strings(node, "aliases"),
            props=_props(node, _FIELD_RESERVED),
        )
        if field.has_default:
            self._with_default.append(field)
        return field

    def _enum(self, node: _Object, namespace: str) -> Enumeration:
        name = _name_of(node, namespace)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchemaError(f"Enum has no symbols: {_shown(node)}")
        found: dict[str, None] = {}
        for each in symbols:
            if not isinstance(each, str):
                raise InvalidSchemaError(f"A symbol of enum {name.full} is no name: {_shown(each)}")
            if each in found:
                raise InvalidSchemaError(f"Duplicate enum symbol: {each}")
            found[_checked(each)] = None
        default = _text(node, "default")
        if default is not None and default not in found:
            raise InvalidSchemaError(f"The default of enum {name.full} is not among its symbols: {default}")
        made = Enumeration(
            name, tuple(found), _text(node, "doc"), default, _aliases_of(node, name), _props(node, _ENUM_RESERVED)
        )
        self._define(made)
        return made

    def _fixed(self, node: _Object, namespace: str) -> Fixed:
        name = _name_of(node, namespace)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _INT_MAX:
            raise InvalidSchemaError(f"Invalid or no size: {_shown(node)}")
        made = Fixed(name, size, _text(node, "doc"), _aliases_of(node, name), _props(node, _RESERVED))
        self._define(made)
        return made


def _split(word: str, namespace: str) -> Name:
    space, dot, simple = word.rpartition(".")
    return Name(space if dot else namespace, simple)


def _name_of(node: _Object, namespace: str) -> Name:
    word, own = node.get("name"), node.get("namespace")
    if not isinstance(word, str):
        raise InvalidSchemaError(f"No name in schema: {_shown(node)}")
    name = _split(word, own if isinstance(own, str) else namespace)
    _checked(name.simple)
    for part in name.namespace.split(".") if name.namespace else ():
        _checked(part)
    return name


def _checked(name: str) -> str:
    """Return a name, which begins with a letter or `_` and goes on with letters, digits and `_`, of any script."""
    if not name:
        raise InvalidSchemaError("Empty name")
    if not (name[0].isalpha() or name[0] == "_") or name[0] > _LAST_OF_JAVA:
        raise InvalidSchemaError(f"Illegal initial character: {_shown(name)}")
    if not all(each.isalpha() or each.isdecimal() or each == "_" for each in name) or max(name) > _LAST_OF_JAVA:
        raise InvalidSchemaError(f"Illegal character in: {_shown(name)}")
    return name


def _aliases_of(node: _Object, name: Name) -> tuple[str, ...]:
    """Return the full names that a type has also had."""
    found: dict[str, None] = {}
    for word in _strings(node, "aliases"):
        alias = _split(word, name.namespace)
        _checked(alias.simple)
        found[alias.full] = None
    return tuple(found)


def _strings(node: _Object, key: str) -> tuple[str, ...]:
    value = node.get(key, [])
    if not isinstance(value, list):
        raise InvalidSchemaError(f"{key} not an array: {_shown(node)}")
    found: dict[str, None] = {}
    for each in value:
        if not isinstance(each, str):
            raise InvalidSchemaError(f"alias not a string: {_shown(each)}")
        found[each] = None
    return tuple(found)


def _text(node: _Object, key: str) -> str | None:
    value = node.get(key)
    return value if isinstance(value, str) else None


def _props(node: _Object, reserved: Collection[str]) -> Props:
    return {key: value for key, value in node.items() if key not in reserved}


def _number(default: JsonValue, kind: AvroType) -> JsonValue:
    """Return a default, as a number where a number with a point is written as text, such as "NaN"."""
    if kind.kind not in (Kind.FLOAT, Kind.DOUBLE) or not isinstance(default, str):
        return default
    digits = default.strip()
    if len(digits) > _DOUBLE_CHARS_MAX or not _DOUBLE.fullmatch(digits):
        raise InvalidSchemaError(f"Invalid default: {_shown(default)} is no number")
    digits = digits.rstrip("fFdD")
    try:
        return float.fromhex(digits) if "x" in digits.lower() else float(digits)
    except OverflowError:
        return float("-inf") if digits.startswith("-") else float("inf")


def _shown(value: JsonValue) -> str:
    text = write_json(value)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
