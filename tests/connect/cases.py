"""Questions for Connect's classes, made from a seed: the same to the oracle's JVM and to Ottla."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from typing import Any

from tests.connect import schemas, storage_cases, transform_cases, worker_cases

Json = Any

PIECES = [
    *(
        "1",
        "-7",
        "127",
        "128",
        "32768",
        "2147483648",
        "9223372036854775808",
        "1.5",
        "1e3",
        "1.0",
        "0.1",
        "-0.0",
        "1e40",
    ),
    *("1e400", "007", "+5", "true", "false", "null", "TRUE", "a", "b c", "é", "x:y", '"q"', '"a b"', '"2020-01-02"'),
    *("2020-01-02", "2020-01-02T03:04:05.678Z", "12:34:56.789Z", "12:34:56", "[", "]", "{", "}", ",", ":", " ", "\\"),
    *("\\:", "NaN", "-", "+", ".5", "5.", "2020-13-45", "1234567890", "9999999999999999999", "[1,2]", '{"a":1}', "[]"),
]


def parses(random: random.Random, count: int) -> Iterator[Json]:
    """Texts for the value parser: well formed, nearly so, and not at all."""
    for _ in range(count):
        shape = random.randrange(5)
        if shape == 0:
            text = random.choice(PIECES)
        elif shape == 1:
            text = "".join(random.choice(PIECES) for _ in range(random.randrange(1, 6)))
        else:
            text = written(random, 0)
        yield {"op": "parse", "text": text}


def written(random: random.Random, depth: int) -> str:
    """Return a list, map or scalar in Connect's text form."""
    kind = random.randrange(4 if depth < 3 else 2)
    space = random.choice(["", "", " "])
    if kind < 2:
        return space + random.choice(PIECES[:26]) + space
    alike = random.choice([None, random.choice(PIECES[:13])])
    items = [alike or written(random, depth + 1) for _ in range(random.randrange(4))]
    if kind == 2:
        return "[" + ",".join(items) + "]"
    keys = [random.choice([f'"k{place}"', str(place), f'"2020-01-0{place + 1}"']) for place in range(len(items))]
    return "{" + ",".join(f"{key}{space}:{item}" for key, item in zip(keys, items, strict=True)) + "}"


KAFKA = "org.apache.kafka.connect."
JSON = KAFKA + "json.JsonConverter"


def json_settings(random: random.Random) -> dict[str, str]:
    """Settings of JsonConverter."""
    settings = {"schemas.enable": random.choice(["true", "false"])}
    if random.random() < 0.3:
        settings["decimal.format"] = random.choice(["numeric", "BASE64"])
    if random.random() < 0.3:
        settings["replace.null.with.default"] = "false"
    return settings


def json_writes(random: random.Random, count: int) -> Iterator[Json]:
    """Values with and without schemas, to be written as JSON."""
    for _ in range(count):
        asked = {"op": "from", "class": JSON, "config": json_settings(random), "schema": None}
        if random.random() < 0.7:
            of = schemas.schema(random)
            yield {**asked, "schema": of, "value": schemas.value(random, of)}
        else:
            yield {**asked, "value": schemas.plain(random)}


def json_reads(random: random.Random, count: int) -> Iterator[Json]:
    """JSON texts, well formed and not, most in an envelope with a schema that they may not fit."""
    for _ in range(count):
        settings = json_settings(random)
        text = json_value(random, 0)
        if settings["schemas.enable"] == "true" and random.random() < 0.95:
            described = json_schema(random, 0)
            fitting = random.random() < 0.7
            payload = fitted(random, described) if fitting else text
            text = f'{{"schema":{json.dumps(described, ensure_ascii=False)},"payload":{payload}}}'
        if random.random() < 0.05:
            text = text[: random.randrange(len(text) + 1)] + random.choice(["", "x", "}", "]", " 1"])
        data = base64.b64encode(text.encode()).decode()
        yield {"op": "to", "class": JSON, "config": settings, "data": data}


SCALAR_TEXTS = [
    "0",
    "1",
    "-1",
    "300",
    "70000",
    "3000000000",
    "1e2",
    "1.5",
    "-0.25",
    "99999999999999999999",
    "007",
    "null",
]
SCALAR_TEXTS += ["true", "false", '""', '"a"', '"AQI="', '"é\\u20ac"', '"12"', "1e400"]


def json_value(random: random.Random, depth: int) -> str:
    """Return JSON text."""
    kind = random.randrange(6 if depth < 3 else 4)
    if kind < 4:
        return random.choice(SCALAR_TEXTS)
    items = [json_value(random, depth + 1) for _ in range(random.randrange(4))]
    if kind == 4:
        return "[" + random.choice([",", " , "]).join(items) + "]"
    return "{" + ",".join(f'"{name}":{each}' for name, each in zip("abcd", items, strict=False)) + "}"


def json_schema(random: random.Random, depth: int) -> Json:
    """Return a schema as JSON has it, some of them not quite right."""
    types = ["int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes"]
    kind = random.choice([*types, *(["array", "map", "struct", "struct"] if depth < 3 else []), "string"])
    node: dict[str, Json] = {"type": kind}
    if random.random() < 0.04:
        return random.choice(
            [{}, {"type": 1}, {"type": "what"}, {"type": "array"}, {"type": "struct"}, {"type": "map"}]
        )
    if kind == "array":
        node["items"] = json_schema(random, depth + 1)
    elif kind == "map":
        node |= {"keys": {"type": random.choice(["string", "int32"])}, "values": json_schema(random, depth + 1)}
    elif kind == "struct":
        node["fields"] = [{**json_schema(random, depth + 1), "field": name} for name in "abc"[: random.randrange(1, 4)]]
    if random.random() < 0.6:
        node["optional"] = random.random() < 0.7
    if random.random() < 0.15 and kind in ("bytes", "int32", "int64"):
        names = {"bytes": ["Decimal"], "int32": ["Date", "Time"], "int64": ["Timestamp"]}[kind]
        node |= {"name": schemas.PREFIX + random.choice(names), "version": 1, "parameters": {"scale": "2"}}
    elif random.random() < 0.1:
        node |= {"name": "n", "version": 2, "doc": "d"}
    if random.random() < 0.1 and kind in ("int32", "string", "boolean"):
        node["default"] = {"int32": 5, "string": "dflt", "boolean": True}[kind]
    return node


def fitted(random: random.Random, of: Json) -> str:
    """Return JSON text that fits a schema, mostly."""
    if random.random() < 0.1:
        return "null"
    match of.get("type"):
        case "array":
            return "[" + ",".join(fitted(random, of.get("items", {})) for _ in range(random.randrange(3))) + "]"
        case "map" if of.get("keys", {}).get("type") == "string":
            return (
                "{" + ",".join(f'"{key}":{fitted(random, of["values"])}' for key in "ab"[: random.randrange(3)]) + "}"
            )
        case "map":
            return (
                "["
                + ",".join(f"[{key},{fitted(random, of.get('values', {}))}]" for key in "12"[: random.randrange(3)])
                + "]"
            )
        case "struct":
            fields = of.get("fields", ())
            return "{" + ",".join(f'"{each["field"]}":{fitted(random, each)}' for each in fields) + "}"
        case "string":
            return random.choice(['"a"', '""', '"é"'])
        case "bytes":
            return random.choice(['"AQI="', '""', '"_"'])
        case "boolean":
            return random.choice(["true", "false"])
    return random.choice(["0", "1", "-7", "100000", "1.5"])


PLAIN = ["Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Short"]
PLAIN_CLASSES = [*(f"{KAFKA}converters.{each}Converter" for each in PLAIN), KAFKA + "storage.StringConverter"]


def plain_converters(random: random.Random, count: int) -> Iterator[Json]:
    """Converters of one scalar, both ways, with values that fit and that do not."""
    for _ in range(count):
        asked = {"class": random.choice(PLAIN_CLASSES), "config": {}, "key": random.random() < 0.5}
        if "String" in asked["class"] and random.random() < 0.3:
            asked["config"] = {"converter.encoding": random.choice(["UTF-16", "ISO-8859-1", "nothing"])}
        if random.random() < 0.5:
            data = random.choice(
                [b"", b"\0", b"\1", b"\2", random.randbytes(2), random.randbytes(4), random.randbytes(8)]
            )
            text = None if random.random() < 0.1 else base64.b64encode(data).decode()
            if "String" in asked["class"]:
                text = base64.b64encode(random.choice(schemas.TEXTS).encode()).decode()
                asked["config"] = {}
            yield {"op": "to", **asked, "data": text}
            continue
        kinds = [each for each in schemas.SCALARS if each != "BYTES" or "String" not in asked["class"]]
        kind = random.choice(kinds)
        made = None if random.random() < 0.1 else schemas.scalar(random, kind)
        of = {"type": kind} if random.random() < 0.5 or kind in ("INT64", "FLOAT64") else None
        yield {"op": "from", **asked, "schema": of, "value": made}


def headers(random: random.Random, count: int) -> Iterator[Json]:
    """Header values as text, and back."""
    for _ in range(count):
        asked: Json = {"class": KAFKA + "storage.SimpleHeaderConverter", "config": {}}
        if random.random() < 0.3:
            data = base64.b64encode(written(random, 0).encode()).decode()
            yield {"op": "header_to", **asked, "data": data}
        elif random.random() < 0.5:
            of = schemas.schema(random)
            yield {"op": "header_from", **asked, "schema": of, "value": schemas.value(random, of)}
        else:
            yield {"op": "header_from", **asked, "schema": None, "value": schemas.plain(random)}


FAMILIES = {
    "parses": (parses, 400),
    "json_writes": (json_writes, 250),
    "json_reads": (json_reads, 350),
    "plain_converters": (plain_converters, 250),
    "headers": (headers, 150),
    "transformations": (transform_cases.transformations, 400),
    "predicates": (transform_cases.predicates, 60),
    "config_folds": (storage_cases.config_folds, 120),
    "status_folds": (storage_cases.status_folds, 60),
    "java_maps": (storage_cases.java_maps, 30),
    "connector_defs": (transform_cases.connector_defs, 60),
    "enriched": (transform_cases.enriched, 10),
    "workers": (worker_cases.workers, 24),
    "overrides": (worker_cases.overrides, 60),
    "validations": (transform_cases.validations, 120),
}
"""Family -> its questions, and how many of them are kept as facts."""
