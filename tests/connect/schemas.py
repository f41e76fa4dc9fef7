"""Random schemas, values that fit them and records, as the JSON of `described`, from a seed."""

from __future__ import annotations

import base64
import random
from typing import Any

Json = Any

SCALARS = ["INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES"]
LOGICAL = {
    "Decimal": ("BYTES", {"scale": "2"}),
    "Date": ("INT32", None),
    "Time": ("INT32", None),
    "Timestamp": ("INT64", None),
}
NAMES = ["a", "b", "c", "name", "ts", "x.y", "é", 'q"']
TEXTS = [
    "",
    "a",
    "12",
    "-3.5",
    "true",
    "é€😀",
    'q"\\',
    "2020-01-02",
    "line\nbreak\x01",
    "[1,2]",
    "x y",
    "1e3",
    "99999999999",
]
PREFIX = "org.apache.kafka.connect.data."


def schema(random: random.Random, depth: int = 0, *, types: list[str] | None = None) -> Json:
    """Return any schema, nested up to three deep."""
    kinds = types or [*SCALARS, *LOGICAL, *(["ARRAY", "MAP", "STRUCT", "STRUCT"] if depth < 3 else [])]
    kind = random.choice(kinds)
    node: dict[str, Json] = {"type": kind}
    if random.random() < 0.4:
        node["optional"] = True
    if kind in LOGICAL:
        node |= {"type": LOGICAL[kind][0], "name": PREFIX + kind, "version": 1}
        if LOGICAL[kind][1]:
            node["parameters"] = LOGICAL[kind][1]
    elif kind == "ARRAY":
        node["value"] = schema(random, depth + 1)
    elif kind == "MAP":
        node["key"] = {"type": random.choice(["STRING", "STRING", "INT32", "BOOLEAN"])}
        node["value"] = schema(random, depth + 1)
    elif kind == "STRUCT":
        names = random.sample(NAMES, random.randrange(1, 5))
        node["fields"] = [{"name": name, "schema": schema(random, depth + 1)} for name in names]
    if kind not in LOGICAL and random.random() < 0.2:
        node |= {"name": random.choice(["n", "com.example.V"]), "version": random.randrange(1, 4)}
        if random.random() < 0.3:
            node |= {"doc": "what it is", "parameters": {"p": "1"}}
    if kind in SCALARS and random.random() < 0.2:
        node["default"] = value(random, {**node, "optional": False})
    return node


def value(random: random.Random, of: Json) -> Json:
    """Return a value that fits a schema."""
    if of.get("optional") and random.random() < 0.3:
        return None
    logical = of.get("name", "").removeprefix(PREFIX)
    if logical in LOGICAL:
        return logical_value(random, logical)
    match of["type"]:
        case "ARRAY":
            return {"t": "list", "v": [value(random, of["value"]) for _ in range(random.randrange(3))]}
        case "MAP":
            entries = {repr(key): key for key in (value(random, of["key"]) for _ in range(random.randrange(3)))}
            return {"t": "map", "v": [[key, value(random, of["value"])] for key in entries.values()]}
        case "STRUCT":
            found = []
            for field in of["fields"]:
                left_out = "default" in field["schema"] and random.random() < 0.5 and field["schema"].get("optional")
                found.append(None if left_out else value(random, field["schema"]))
            return {"t": "struct", "schema": of, "v": found}
    return scalar(random, of["type"])


def logical_value(random: random.Random, kind: str) -> Json:
    if kind == "Decimal":
        return {"t": "decimal", "v": f"{random.randrange(-99999, 99999)}.{random.randrange(100):02}"}
    if kind == "Date":
        return {"t": "date", "v": random.randrange(-20000, 40000) * 86_400_000}
    if kind == "Time":
        return {"t": "date", "v": random.randrange(86_400_000)}
    return {"t": "date", "v": random.randrange(-(10**12), 3 * 10**12)}


def scalar(random: random.Random, kind: str) -> Json:
    """Return a scalar of a type."""
    if kind.startswith("INT"):
        bits = int(kind[3:])
        edges = [0, 1, -1, (1 << (bits - 1)) - 1, -(1 << (bits - 1))]
        return {"t": kind.lower(), "v": random.choice([*edges, random.randrange(-100, 100)])}
    if kind == "BOOLEAN":
        return {"t": "boolean", "v": random.random() < 0.5}
    if kind == "STRING":
        return {"t": "string", "v": random.choice(TEXTS)}
    if kind == "BYTES":
        return {"t": "bytes", "v": base64.b64encode(random.randbytes(random.randrange(5))).decode()}
    texts = ["0.0", "-0.0", "1.5", "0.1", "1.0E10", "1.0E-5", "123456.78", "NaN", "Infinity", "-7.0", "3.0E38"]
    return {"t": kind.lower(), "v": random.choice(texts)}


def plain(random: random.Random, depth: int = 0) -> Json:
    """Return a value without a schema."""
    kind = random.randrange(14)
    if kind == 0:
        return None
    if kind < 4 and depth < 3:
        if kind == 1:
            return {"t": "list", "v": [plain(random, depth + 1) for _ in range(random.randrange(3))]}
        names = random.sample(NAMES, random.randrange(4))
        return {"t": "map", "v": [[{"t": "string", "v": name}, plain(random, depth + 1)] for name in names]}
    return scalar(random, random.choice(SCALARS))


def plain_map(random: random.Random) -> Json:
    """Return a map without a schema, as most values without one are."""
    names = random.sample(NAMES, random.randrange(1, 5))
    return {"t": "map", "v": [[{"t": "string", "v": name}, plain(random, 1)] for name in names]}


def struct(random: random.Random) -> Json:
    """Return a struct's schema."""
    return schema(random, 1, types=["STRUCT"])


def record(random: random.Random) -> Json:
    """Return a record of either direction, with a schema or without."""
    made: dict[str, Json] = {
        "topic": random.choice(["orders", "orders-2024", "t.a", "x"]),
        "partition": random.choice([0, 3]),
        "timestamp": random.choice([None, 0, 1_600_000_000_123, 86_399_999]),
        "headers": [
            {
                "key": random.choice(["h", "k", "trace"]),
                "schema": {"type": "STRING"},
                "value": {"t": "string", "v": "1"},
            }
            for _ in range(random.randrange(3))
        ],
    }
    if random.random() < 0.6:
        made["offset"] = random.randrange(1000)
    for part in ("key", "value"):
        made[f"{part}_schema"], made[part] = None, None
        shape = random.random()
        if shape < 0.5:
            of = struct(random) if random.random() < 0.8 else schema(random)
            made[f"{part}_schema"], made[part] = of, value(random, of)
        elif shape < 0.95:
            made[part] = plain_map(random) if random.random() < 0.8 else plain(random)
    return made
