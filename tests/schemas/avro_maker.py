"""Random Avro schemas, changes of them that readers bear, and data."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

__all__ = ["changed", "datum", "schema"]

SIMPLE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTED = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"]}
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": -7,
    "long": 5_000_000_000,
    "float": 1.5,
    "double": 1e-7,
    "bytes": "\u00ff",
    "string": "ä\u0001",
}
SYMBOLS = ("A", "B", "C", "D", "E")


class Maker:
    """Makes one schema; each name is given once."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"{self.random.choice(['n', 'n.m'])}.T{self.count}"

    def any(self, depth: int) -> Any:
        kind = self.random.choice((*SIMPLE, "array", "map", "union", "record", "record", "enum", "fixed"))
        if kind in SIMPLE or depth <= 0:
            return self.simple()
        return getattr(self, kind)(depth)

    def simple(self) -> Any:
        name = self.random.choice(SIMPLE)
        return name if self.random.random() < 0.8 else {"type": name, "extra": self.random.randrange(9)}

    def array(self, depth: int) -> Any:
        return {"type": "array", "items": self.any(depth - 1)}

    def map(self, depth: int) -> Any:
        return {"type": "map", "values": self.any(depth - 1)}

    def union(self, depth: int) -> Any:
        kinds = self.random.sample(SIMPLE, self.random.randint(1, 3))
        return [*kinds, self.record(depth - 1)] if self.random.random() < 0.3 else list(kinds)

    def enum(self, depth: int) -> Any:
        symbols = self.random.sample(SYMBOLS, self.random.randint(1, 4))
        made = {"type": "enum", "name": self.name(), "symbols": symbols}
        return {**made, "default": symbols[0]} if self.random.random() < 0.3 else made

    def fixed(self, depth: int) -> Any:
        return {"type": "fixed", "name": self.name(), "size": self.random.randint(1, 3)}

    def record(self, depth: int) -> Any:
        name = self.name()
        fields = [self.field(f"f{index}", depth) for index in range(self.random.randint(0, 4))]
        if self.random.random() < 0.2:
            fields.append({"name": "self", "type": ["null", name], "default": None})
        made: dict[str, Any] = {"type": "record", "name": name, "fields": fields}
        if self.random.random() < 0.3:
            made |= {"doc": "said", "aliases": ["Old"]}
        return made

    def field(self, name: str, depth: int) -> Any:
        kind = self.any(depth - 1)
        found: dict[str, Any] = {"name": name, "type": kind}
        simple = kind["type"] if isinstance(kind, dict) else kind
        if isinstance(simple, str) and simple in DEFAULTS and self.random.random() < 0.5:
            found["default"] = DEFAULTS[simple]
        if self.random.random() < 0.2:
            found |= {"order": self.random.choice(["ascending", "descending", "ignore"]), "aliases": [f"{name}_old"]}
        return found


def schema(random: Random, depth: int = 3) -> Any:
    """Return a schema."""
    return Maker(random).any(depth)


def changed(random: Random, old: Any, *, count: int) -> Any:
    """Return a schema that reads what the old one wrote: a few changes of those that the rules allow."""
    new = copy.deepcopy(old)
    for number in range(random.randint(1, 3)):
        new = _changed(random, new, f"new{count}_{number}")
    return new


def _changed(random: Random, node: Any, name: str) -> Any:
    if isinstance(node, str):
        wider = PROMOTED.get(node, [])
        return random.choice([node, *wider])
    if isinstance(node, list):
        free = [each for each in SIMPLE if each not in node]
        return [*node, random.choice(free)] if free and random.random() < 0.5 else node
    match node["type"]:
        case "array":
            return {**node, "items": _changed(random, node["items"], name)}
        case "map":
            return {**node, "values": _changed(random, node["values"], name)}
        case "enum":
            free = [each for each in SYMBOLS if each not in node["symbols"]]
            return {**node, "symbols": [*node["symbols"], *free[:1]]}
        case "record":
            return {**node, "fields": _changed_fields(random, node["fields"], name)}
    return node


def _changed_fields(random: Random, fields: list[Any], name: str) -> list[Any]:
    kind = random.choice(("add", "remove", "rename", "inside"))
    if kind == "add" or not fields:
        word = random.choice(SIMPLE)
        added = {"name": name, "type": word, "default": DEFAULTS[word]}
        place = random.randint(0, len(fields))
        return [*fields[:place], added, *fields[place:]]
    at = random.randrange(len(fields))
    each = fields[at]
    if kind == "remove":
        return fields if _defines(each["type"]) else [*fields[:at], *fields[at + 1 :]]
    if kind == "rename":
        aliases = [*each.get("aliases", []), each["name"]]
        return [*fields[:at], {**each, "name": name, "aliases": aliases}, *fields[at + 1 :]]
    inner = {key: value for key, value in each.items() if key != "default"} if isinstance(each["type"], list) else each
    return [*fields[:at], {**inner, "type": _changed(random, each["type"], name)}, *fields[at + 1 :]]


def _defines(node: Any) -> bool:
    """True for a type whose name may be used further on."""
    return not isinstance(node, str)


def datum(random: Random, node: Any, named: dict[str, Any], depth: int = 6) -> Any:
    """Return a value of a schema."""
    if isinstance(node, list):
        return datum(random, node[0] if depth <= 0 else random.choice(node), named, depth - 1)
    if isinstance(node, str) and node in named:
        return datum(random, named[node], named, depth - 1)
    kind = node if isinstance(node, str) else node["type"]
    match kind:
        case "record":
            named[node["name"]] = node
            return {each["name"]: datum(random, each["type"], named, depth - 1) for each in node["fields"]}
        case "array":
            return [datum(random, node["items"], named, depth - 1) for _ in range(2 if depth > 0 else 0)]
        case "map":
            return {
                key: datum(random, node["values"], named, depth - 1) for key in ("k", "ö")[: depth if depth > 0 else 0]
            }
        case "enum":
            return random.choice(node["symbols"])
        case "fixed":
            return random.randbytes(node["size"])
        case "bytes":
            return b"a\0"
        case "float" | "double":
            return random.choice([0.5, -2.0, 1e10])
    return {"null": None, "boolean": True, "int": random.randint(-5, 5), "long": 1 << 40, "string": "é"}[kind]
