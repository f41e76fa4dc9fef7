"""Questions for transformations, predicates and validation, made from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.connect import schemas

Json = Any
Settings = dict[str, str]

KAFKA = "org.apache.kafka.connect."
PARTS = ["Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField", "ReplaceField"]
PARTS += ["SetSchemaMetadata", "TimestampConverter"]
WHOLES = ["DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey"]
PREDICATES = ["HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"]
CONVERTERS = [
    "json.JsonConverter",
    "storage.StringConverter",
    "converters.LongConverter",
    "storage.SimpleHeaderConverter",
]


def with_default(random: random.Random) -> Settings:
    return {"replace.null.with.default": "false"} if random.random() < 0.25 else {}


def settings_of(random: random.Random, name: str, names: list[str]) -> Settings:
    """Return settings of a transformation, for a record whose fields have these names."""
    one, other = random.choice([*names, "none"]), random.choice([*names, "none"])
    types = ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"]
    match name:
        case "Cast":
            whole = random.random() < 0.15
            return {"spec": random.choice(types) if whole else f"{one}:{random.choice(types)}", **with_default(random)}
        case "ExtractField":
            nested = {"field": f"{one}.{random.choice(schemas.NAMES)}", "field.syntax.version": "V2"}
            return {**random.choice([{"field": one}, nested]), **with_default(random)}
        case "Flatten":
            return random.choice([{}, {"delimiter": "_"}])
        case "HeaderFrom":
            if one == "none":
                one = random.choice(names) if names else "none"
            return {"fields": one, "headers": "h", "operation": random.choice(["move", "copy"]), **with_default(random)}
        case "HoistField":
            return {"field": "wrapped"}
        case "InsertField":
            suffix = random.choice(["", "!", "?"])
            kind = random.choice(["topic", "partition", "offset", "timestamp"])
            found = {f"{kind}.field": f"new{suffix}"}
            return {
                **found,
                **random.choice([{}, {"static.field": "fixed", "static.value": "v"}]),
                **with_default(random),
            }
        case "MaskField":
            replacement = random.choice([{}, {"replacement": "42"}, {"replacement": "x"}])
            return {"fields": one, **replacement, **with_default(random)}
        case "ReplaceField":
            options = [{"exclude": one}, {"include": f"{one}, {other}x"}, {"renames": f"{one}:renamed"}]
            return {**random.choice(options), **with_default(random)}
        case "SetSchemaMetadata":
            options = [{"schema.name": "N"}, {"schema.version": "7"}, {"schema.name": "N", "schema.version": "7"}]
            return {**random.choice(options), **with_default(random)}
        case "TimestampConverter":
            return timestamp_settings(random, one)
    return whole_settings(random, name, one)


def timestamp_settings(random: random.Random, field: str) -> Settings:
    target = random.choice(["string", "unix", "Date", "Time", "Timestamp"])
    formats = [
        "yyyy-MM-dd'T'HH:mm:ss.SSS",
        "yyyy-MM-dd",
        "EEE, d MMM yyyy hh:mm a",
        "DDD/yy",
        "HH:mm:ss z",
        "G w W u k K",
    ]
    found = {"target.type": target, "field": random.choice([field, ""]), "format": random.choice(formats)}
    if random.random() < 0.4:
        found["unix.precision"] = random.choice(["seconds", "microseconds", "nanoseconds"])
    return {**found, **with_default(random)}


def whole_settings(random: random.Random, name: str, one: str) -> Settings:
    match name:
        case "DropHeaders":
            return {"headers": random.choice(["h", "k,trace"])}
        case "InsertHeader":
            return {"header": "added", "value.literal": random.choice(["1", "true", "[1,2]", "text", '{"a":1.5}'])}
        case "RegexRouter":
            regexes = ["(.*)-(\\d+)", "(?<n>o.*)", "t\\.(.)", "[a-z]+", "\\p{Alpha}+", "x|\\Qt.a\\E"]
            return {"regex": random.choice(regexes), "replacement": random.choice(["new", "$0-x", "a\\$b", "p.$0"])}
        case "TimestampRouter":
            return random.choice([{}, {"timestamp.format": "yyyyMMddHH", "topic.format": "${timestamp}_${topic}"}])
        case "ValueToKey":
            return {"fields": one, **with_default(random)}
    return {}


def field_names(record: Json, part: str) -> list[str]:
    """Return the names of the fields of a record's part, as far as it has any that Java and Python agree on."""
    value = record[part]
    if value is None or value["t"] not in ("map", "struct"):
        return []
    if value["t"] == "struct":
        return [each["name"] for each in value["schema"]["fields"]]
    return [key["v"] for key, _ in value["v"] if key["t"] == "string" and record[f"{part}_schema"] is None]


def transformations(random: random.Random, count: int) -> Iterator[Json]:
    """Records through every transformation."""
    for number in range(count):
        name = (PARTS * 3 + WHOLES)[number % (len(PARTS) * 3 + len(WHOLES))]
        record = schemas.record(random)
        part = "value" if name in WHOLES or random.random() < 0.7 else "key"
        settings = settings_of(random, name, field_names(record, part))
        if name == "TimestampConverter" and random.random() < 0.6:
            record = timed_record(random, part, settings)
        if name == "TimestampRouter" and record["timestamp"] is None:
            record["timestamp"] = 5
        suffix = f"${part.capitalize()}" if name in PARTS else ""
        made = f"{KAFKA}transforms.{name}{suffix}"
        yield {"op": "transform", "class": made, "config": settings, "record": record}


def timed_record(random: random.Random, part: str, settings: Settings) -> Json:
    """Return a record with a time in it where the settings look for one."""
    kind = random.choice(["Date", "Time", "Timestamp", "unix", "string"])
    texts = ["2020-01-02T03:04:05.678", "2020-13-45", "Thu, 2 Jan 2020 03:04 PM", "045/20", "12:34:56 UTC", "x"]
    if kind == "unix":
        of: Json = {"type": "INT64"}
        time: Json = {"t": "int64", "v": random.choice([0, -1, 1_600_000_000_123, 1_600_000_000])}
    elif kind == "string":
        of, time = {"type": "STRING"}, {"t": "string", "v": random.choice(texts)}
    else:
        type_, _ = schemas.LOGICAL[kind]
        of = {"type": type_, "name": schemas.PREFIX + kind, "version": 1}
        time = schemas.logical_value(random, kind)
    record = schemas.record(random)
    if random.random() < 0.3:
        of["optional"] = True
    if not settings["field"]:
        record[f"{part}_schema"], record[part] = of, time
    elif kind in ("unix", "string") and random.random() < 0.4:
        pairs = [[{"t": "string", "v": settings["field"]}, time]]
        record[f"{part}_schema"], record[part] = None, {"t": "map", "v": pairs}
    else:
        whole = {"type": "STRUCT", "fields": [{"name": settings["field"], "schema": of}]}
        record[f"{part}_schema"] = whole
        record[part] = {"t": "struct", "schema": whole, "v": [time]}
    return record


def predicates(random: random.Random, count: int) -> Iterator[Json]:
    """Records before every predicate."""
    for _ in range(count):
        name = random.choice(PREDICATES)
        settings = {"HasHeaderKey": {"name": "h"}, "TopicNameMatches": {"pattern": "orders.*"}}.get(name, {})
        made = f"{KAFKA}transforms.predicates.{name}"
        yield {"op": "predicate", "class": made, "config": settings, "record": schemas.record(random)}


VALUES = ["", "a", "a:b", "a:int8", "int64", "true", "maybe", "7", "99999999999", "a,b", "a,,b", "a,a", "move", "unix"]
VALUES += ["BASE64", "numeric", "V2", "yyyy", "1.5", "a:b:c", "key", " value "]


CONNECTOR_KEYS = ["name", "connector.class", "tasks.max", "tasks.max.enforce", "transforms", "predicates", "topics"]
CONNECTOR_KEYS += ["errors.tolerance", "errors.retry.timeout", "config.action.reload", "errors.log.enable"]
CONNECTOR_KEYS += ["topic.creation.groups", "exactly.once.support", "transaction.boundary", "offsets.storage.topic"]
CONNECTOR_KEYS += ["transaction.boundary.interval.ms", "errors.deadletterqueue.topic.replication.factor"]
CONNECTOR_VALUES = [
    "",
    "a",
    "a,b",
    "a,a",
    "a,,b",
    "0",
    "1",
    "-1",
    "99999",
    "all",
    "none",
    "true",
    "restart",
    "Required",
]
CONNECTOR_VALUES += ["interval", "poll", "1.5", " x ", "tab\there", "connector"]


def connector_defs(random: random.Random, count: int) -> Iterator[Json]:
    """What every source and sink is configured with, right and wrong."""
    for _ in range(count):
        kind = random.choice(["SourceConnectorConfig", "SinkConnectorConfig"])
        chosen = {key: random.choice(CONNECTOR_VALUES) for key in CONNECTOR_KEYS if random.random() < 0.6}
        yield {"op": "connector_def", "class": kind, "config": chosen}


def enriched(random: random.Random, count: int) -> Iterator[Json]:
    """A sink's configuration with transformations and predicates."""
    classes = [f"{KAFKA}transforms.{name}$Value" for name in PARTS] + [f"{KAFKA}transforms.{name}" for name in WHOLES]
    for _ in range(count):
        chosen = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "topics": "t",
            "name": "n",
        }
        chosen |= {"transforms": random.choice(["a", "a,b", ""]), "predicates": random.choice(["p", ""])}
        for alias in "ab":
            settings = {"type": random.choice(classes), "field": "f", "spec": "int8", "regex": "x", "delimiter": "_"}
            settings |= {"predicate": "p"} if random.random() < 0.4 else {}
            settings |= {"negate": random.choice(["true", "x"])} if random.random() < 0.4 else {}
            kept = {key: each for key, each in settings.items() if random.random() < 0.8 or key in ("type", "regex")}
            chosen |= {f"transforms.{alias}.{key}": each for key, each in kept.items()}
        predicate = random.choice([each for each in PREDICATES if each != "TopicNameMatches"])
        chosen |= {"predicates.p.type": f"{KAFKA}transforms.predicates.{predicate}", "predicates.p.name": "h"}
        yield {"op": "enriched", "config": chosen}


def validations(random: random.Random, count: int) -> Iterator[Json]:
    """Settings of every plugin, right and wrong."""
    names = [f"transforms.{name}$Value" for name in PARTS] + [f"transforms.{name}" for name in WHOLES]
    names += [f"transforms.predicates.{name}" for name in PREDICATES] + CONVERTERS
    keys = ["spec", "field", "fields", "headers", "header", "operation", "target.type", "format", "unix.precision"]
    keys += ["include", "exclude", "renames", "replacement", "delimiter", "value.literal", "name", "pattern", "regex"]
    keys += [
        "schema.name",
        "schema.version",
        "static.field",
        "topic.field",
        "replace.null.with.default",
        "schemas.enable",
    ]
    keys += ["schemas.cache.size", "decimal.format", "converter.type", "converter.encoding", "field.syntax.version"]
    keys += ["schema.content", "timestamp.format"]
    for number in range(count):
        name = names[number % len(names)]
        chosen = {key: random.choice(VALUES) for key in keys if random.random() < 0.75}
        if "ReplaceField" in name or "TopicNameMatches" in name or "RegexRouter" in name:
            chosen |= {"regex": "a.*", "pattern": "x+"}  # without them Java tells of its NullPointerException
        yield {"op": "validate", "class": KAFKA + name, "config": chosen}
