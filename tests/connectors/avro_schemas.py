"""Random Avro schemas and values of them, of all that Connect has a place for; and what two schemas have in common."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["Schemas", "shape"]

_PLAIN = ("int", "long", "float", "double", "boolean", "string", "bytes")
_LOGICAL = (("int", "date"), ("int", "time-millis"), ("long", "timestamp-millis"), ("long", "timestamp-micros"))
_NAMED = ("record", "enum", "fixed")
DEPTH_MAX = 3


class Schemas:
    """Makes one schema, with types that are used again by their names, and values of it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.named: dict[str, dict[str, Any]] = {}

    def record(self, depth: int = 0) -> dict[str, Any]:
        """Return a record; what is used again is finished by then, so that no record holds itself."""
        fields = [self._field(number, depth + 1) for number in range(self.rng.randint(1, 5))]
        return self._keep({"type": "record", **self._name("R"), "fields": fields})

    def _name(self, letter: str) -> dict[str, Any]:
        space = self.rng.choice(("", "n", "shop.v1"))
        made: dict[str, Any] = {"name": f"{letter}{len(self.named)}x{self.rng.randrange(1 << 20)}"}
        made |= {"namespace": space} if space else {"namespace": "top"}
        if self.rng.random() < 0.3:
            made |= {"doc": f"what {made['name']} is", "aliases": ["Old"]}
        return made

    def _keep(self, node: dict[str, Any]) -> dict[str, Any]:
        self.named[f"{node['namespace']}.{node['name']}"] = node
        return node

    def _field(self, number: int, depth: int) -> dict[str, Any]:
        node = self._type(depth)
        made = {"name": f"f{number}", "type": node}
        if self.rng.random() < 0.3 and not self._has_name(node):  # whose own stands for the field's where both have one
            made["doc"] = f"field {number} 'é'"
        if self.rng.random() < 0.4 and not (isinstance(node, list) and "null" in node and node[0] != "null"):
            # where null stands beside another default, Connect takes it for that default
            first = node[0] if isinstance(node, list) else node
            if self._resolved(first) not in ("record", "error"):  # Connect has no defaults of structs
                made["default"] = self._default(first)
        return made

    def _has_name(self, node: Any) -> bool:
        branches = [each for each in (node if isinstance(node, list) else [node]) if each != "null"]
        return len(branches) == 1 and self._resolved(branches[0]) in _NAMED

    def _type(self, depth: int, *, union: bool = True) -> Any:
        rng = self.rng
        what = rng.random()
        if what < 0.1 and self.named:
            return rng.choice(sorted(self.named))
        if what < 0.3 and union:
            return self._union(depth)
        if what < 0.4:
            return self._keep({"type": "enum", **self._name("E"), "symbols": ["ONE", "TWO", "_3"][: rng.randint(1, 3)]})
        if what < 0.5:
            return self._keep({"type": "fixed", **self._name("F"), "size": rng.randint(1, 20)})
        if what < 0.6:
            kind, logical = rng.choice(_LOGICAL)
            return {"type": kind, "logicalType": logical}
        if what < 0.7:
            digits = rng.randint(1, 30)
            return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": rng.randint(0, digits)}
        if what < 0.85 and depth < DEPTH_MAX:
            kind = rng.choice(("array", "map", "record"))
            if kind == "record":
                return self.record(depth)
            return {"type": kind, "items" if kind == "array" else "values": self._type(depth + 1)}
        return rng.choice(_PLAIN)

    def _union(self, depth: int) -> list[Any]:
        """Return a union of types that can be told apart, with null at any place or none."""
        found: dict[str, Any] = {}
        for _ in range(self.rng.randint(1, 3)):
            before = dict(self.named)
            node = self._type(depth + 1, union=False)
            if self._called(node) in found:
                self.named = before  # what it defines is nowhere
            found.setdefault(self._called(node), node)
        if "int" in found and "long" in found:
            del found["long"]  # which of them a number is of, Python does not tell
        if "float" in found and "double" in found:
            del found["float"]
        branches = list(found.values())
        if self.rng.random() < 0.6 or len(branches) == 1:
            branches.insert(self.rng.randint(0, len(branches)), "null")
        return branches

    def _called(self, node: Any) -> str:
        if isinstance(node, str):
            return node
        return f"{node['namespace']}.{node['name']}" if node["type"] in _NAMED else str(node["type"])

    def _resolved(self, node: Any) -> Any:
        node = self.named.get(node, node) if isinstance(node, str) else node
        return node if isinstance(node, str) else node["type"]

    def value(self, node: Any) -> Any:
        """Return a value as fastavro takes it, without logical types, a union's with its branch's name."""
        rng = self.rng
        if isinstance(node, list):
            branch = rng.choice(node)
            return None if branch == "null" else (self._called(branch), self.value(branch))
        if isinstance(node, str):
            node = self.named.get(node, {"type": node})
        match node["type"]:
            case "record":
                return {each["name"]: self.value(each["type"]) for each in node["fields"]}
            case "array":
                return [self.value(node["items"]) for _ in range(rng.randint(0, 3))]
            case "map":
                return {f"k{number}": self.value(node["values"]) for number in range(rng.randint(0, 3))}
            case "enum":
                return rng.choice(node["symbols"])
            case "fixed":
                return rng.randbytes(node["size"])
        return self._plain(node)

    def _plain(self, node: dict[str, Any]) -> Any:
        rng = self.rng
        if node.get("logicalType") == "decimal":
            number = rng.choice((0, -1, rng.randrange(10 ** node["precision"]), 1 - 10 ** node["precision"]))
            return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
        if node.get("logicalType") == "date":
            return rng.randint(-719_162, 2_932_896)  # the years that Python has
        if node.get("logicalType") == "time-millis":
            return rng.randrange(86_400_000)
        if str(node.get("logicalType")).startswith("timestamp"):
            return rng.randrange(-(10**13), 10**14)
        return {
            "int": lambda: rng.choice((0, -(1 << 31), (1 << 31) - 1)),
            "long": lambda: rng.choice((0, -(1 << 63), (1 << 63) - 1, (1 << 53) + 1)),
            "float": lambda: rng.choice((0.0, -0.5, 3.4028234663852886e38)),
            "double": lambda: rng.choice((0.1, -1e300, 5e-324)),
            "boolean": lambda: rng.random() < 0.5,
            "string": lambda: rng.choice(("", "é😀", "a\0b")),
            "bytes": lambda: rng.randbytes(rng.randint(0, 5)),
        }[node["type"]]()

    def _default(self, node: Any) -> Any:
        """Return a default as a schema's JSON has it: numbers without a point for floats too, bytes as one sign each."""
        if node == "null":
            return None
        kind = self._resolved(node)
        if kind in ("float", "double"):
            return self.rng.choice((0, 1, -2.5))
        if kind in ("array", "map"):
            return [] if kind == "array" else {}
        made = self.value(node)
        return made.decode("latin-1") if isinstance(made, bytes) else made


def shape(node: Any, known: dict[str, Any] | None = None, space: str = "") -> Any:
    """Return what two schemas must have in common: types, names, symbols, sizes, digits, fields, defaults."""
    known = {} if known is None else known
    if isinstance(node, list):
        return tuple(sorted(repr(shape(each, known, space)) for each in node))
    if isinstance(node, str):
        return known.get(node, known.get(f"{space}.{node}", node))
    if isinstance(node["type"], dict | list):
        return shape(node["type"], known, space)
    logical = node.get("logicalType")
    digits = (node["precision"], node.get("scale", 0)) if logical == "decimal" else ()
    match node["type"]:
        case "array":
            return ("array", shape(node["items"], known, space))
        case "map":
            return ("map", shape(node["values"], known, space))
        case "record" | "enum" | "fixed" as kind:
            name = node["name"] if "." in node["name"] else f"{node.get('namespace', space)}.{node['name']}"
            inner = name.rpartition(".")[0]
            made: Any = (kind, name, tuple(node.get("symbols", ())), node.get("size"), logical, *digits)
            if kind == "record":
                fields = [(each["name"], shape(each["type"], known, inner), _told(each)) for each in node["fields"]]
                made = (kind, name, repr(fields))
            known[name] = made
            return made
        case kind:
            return (kind, logical, *digits) if logical else kind


def _told(field: dict[str, Any]) -> Any:
    """Return a field's default; null is what an optional field has anyway."""
    found = field.get("default")
    return float(found) if isinstance(found, int) and not isinstance(found, bool) else found
