"""Ottla's answers to the questions that the oracle's JVM is asked, in the same JSON."""

from __future__ import annotations

import base64
from typing import Any

from ottla.base import OttlaError
from ottla.connect import converters, discover, storage
from ottla.connect.client_overrides import ALLOWLIST, POLICY, override_policy, override_values
from ottla.connect.config_def import config_info, config_infos
from ottla.connect.connector_config import connector_def, enriched_def
from ottla.connect.data import SchemaAndValue, parse_value, to_text
from ottla.connect.errors import java_name_of
from ottla.connect.records import ConnectRecord, Header, SinkRecord, SourceRecord
from ottla.connect.transforms import PREDICATES, TRANSFORMATIONS
from ottla.connect.worker_keys import distributed_def, standalone_def
from tests.connect.described import schema_from_json, schema_to_json, value_from_json, value_to_json

Json = Any


def answer(asked: Json) -> Json:
    """Return the answer, or the error with its Java class and message."""
    try:
        return ANSWERS[asked["op"]](asked)
    except OttlaError as error:
        return {"error": java_name_of(error), "message": str(error)}


def pair(found: SchemaAndValue) -> Json:
    return {"schema": schema_to_json(found.schema), "value": value_to_json(found.value, found.schema)}


def text(asked: Json) -> Json:
    schema = schema_from_json(asked["schema"])
    return to_text(value_from_json(asked["value"], schema))


def data(asked: Json) -> bytes | None:
    return None if asked["data"] is None else base64.b64decode(asked["data"])


def encoded(found: bytes | None) -> Json:
    return None if found is None else base64.b64encode(found).decode()


def converter(asked: Json) -> Any:
    made = STOCK[asked["class"]]()
    made.configure(asked["config"], is_key=asked.get("key", False))
    return made


def header_converter(asked: Json) -> Any:
    made = STOCK[asked["class"]]()
    made.configure_header(asked["config"])
    return made


def from_connect(asked: Json) -> Json:
    schema = schema_from_json(asked["schema"])
    return encoded(converter(asked).from_connect("t", schema, value_from_json(asked["value"], schema)))


def from_header(asked: Json) -> Json:
    schema = schema_from_json(asked["schema"])
    return encoded(header_converter(asked).from_header("t", "h", schema, value_from_json(asked["value"], schema)))


STOCK = {each.java_name: each for each in (getattr(converters, name) for name in converters.__all__)}
STOCK |= {each.java_name: each for each in (*TRANSFORMATIONS, *PREDICATES)}


def record_from_json(node: Json) -> ConnectRecord:
    made: dict[str, Json] = {name: node[name] for name in ("topic", "partition", "timestamp")}
    for part in ("key", "value"):
        schema = made[f"{part}_schema"] = schema_from_json(node[f"{part}_schema"])
        made[part] = value_from_json(node[part], schema)
    made["headers"] = tuple(
        Header(each["key"], value_from_json(each["value"]), schema_from_json(each["schema"]))
        for each in node["headers"]
    )
    return SinkRecord(**made, offset=node["offset"]) if "offset" in node else SourceRecord(**made)


def record_to_json(record: ConnectRecord | None) -> Json:
    if record is None:
        return None
    made: dict[str, Json] = {name: getattr(record, name) for name in ("topic", "partition", "timestamp")}
    if isinstance(record, SinkRecord):
        made["offset"] = record.offset
    for part in ("key", "value"):
        schema = getattr(record, f"{part}_schema")
        made[f"{part}_schema"] = schema_to_json(schema)
        made[part] = value_to_json(getattr(record, part), schema)
    made["headers"] = [
        {"key": each.key, "schema": schema_to_json(each.schema), "value": value_to_json(each.value, each.schema)}
        for each in record.headers
    ]
    return made


def plugin(asked: Json) -> Any:
    made = STOCK[asked["class"]]()
    made.configure(asked["config"])
    return made


def validate(asked: Json) -> Json:
    found = STOCK[asked["class"]]
    return config_infos(
        asked["class"], found.config_def.keys, found.config_def.validate(asked["config"]), found.config_def.groups
    )


def config_fold(asked: Json) -> Json:
    state = storage.ConfigState(offset=-1)
    for offset, (key, value) in enumerate(asked["records"]):
        state, _ = storage.apply_config(state, key, data({"data": value}), offset)
    session = None if state.session_key is None else encoded(state.session_key.key)
    found: dict[str, Json] = {"offset": state.offset, "session_key": session}
    for name in state.connectors():
        applied = state.applied.get(name)
        target = state.target_state(name)
        tasks = [state.task_configs.get(storage.TaskId(name, number)) for number in range(4)]
        found[f"connector {name}"] = {
            "config": dict(state.configs[name]),
            "applied": None if applied is None else dict(applied),
            "target": "null" if target is None else target.value,
            "tasks": len(state.tasks(name)),
            "count": state.task_counts.get(name, 0),
            "fencing": name in state.pending_fencing,
            "count_record": state.task_count_records.get(name),
            "generation": state.generations.get(name),
            "inconsistent": name in state.inconsistent,
            "task_configs": [None if each is None else dict(each) for each in tasks],
        }
    return found


def status_fold(asked: Json) -> Json:
    state = storage.StatusState()
    for key, value in asked["records"]:
        state, _ = storage.apply_status(state, key, data({"data": value}))
    found = {}
    for name in asked["connectors"]:
        uses = state.topics.get(name, {})
        found[name] = {
            "connector": status_to_json(state.statuses.get(name)),
            "tasks": [status_to_json(state.statuses.get(storage.TaskId(name, number))) for number in range(4)],
            "topics": {topic: f"{use.task}/{use.discovered_ms}" for topic, use in uses.items()},
        }
    return found


def status_to_json(status: storage.Status | None) -> Json:
    if status is None:
        return None
    shared = {"state": status.state.value, "worker": status.worker_id, "generation": status.generation}
    return {**shared, "trace": status.trace, "version": status.version}


def java_map_write(asked: Json) -> Json:
    return encoded(
        storage.write_java_map({data({"data": key}): data({"data": each}) for key, each in asked["entries"]})
    )


def java_map_read(asked: Json) -> Json:
    found = storage.read_java_map(data(asked) or b"")
    return {"t": "map", "v": [[encoded(key), encoded(each)] for key, each in found.items()]}


def connector_defaults(asked: Json) -> Json:
    found = connector_def(sink="Sink" in asked["class"])
    return config_infos(asked["class"], found.keys, found.validate(asked["config"]), found.groups)


def enriched(asked: Json) -> Json:
    found = enriched_def(connector_def(sink=True), asked["config"], PLUGINS)
    found.classes = PLUGINS.class_of
    return config_infos("enriched", found.keys, found.validate(asked["config"]), found.groups)


def worker_def(asked: Json) -> Json:
    definition = (distributed_def if asked["class"].startswith("distributed") else standalone_def)(own=False)
    values = definition.validate(asked["config"])
    whole = config_infos("", definition.keys, values, ())["configs"]
    parts = ("name", "type", "required", "default_value", "importance")
    shown = [
        {
            **{part: each["definition"][part] for part in parts},
            **{part: each["value"][part] for part in ("value", "errors")},
        }
        for each in whole
    ]
    return [_on_every_interface(each) if each["name"] == "listeners" else each for each in shown]


def _on_every_interface(shown: Json) -> Json:
    """Return the key of the REST addresses with Kafka's default; ours is this machine alone (docs/differences.md)."""
    assert shown["default_value"] == "http://localhost:8083"
    return {name: "http://:8083" if value == "http://localhost:8083" else value for name, value in shown.items()}


def overrides(asked: Json) -> Json:
    worker = {POLICY: asked["class"], ALLOWLIST: asked["allowlist"]}
    props = {"topic.creation.default.partitions": "1", **asked["config"]}
    found = override_values(props, sink=asked["kind"] == "consumer", policy=override_policy(worker))
    configs = [config_info(key, value) for key, value in found]
    for each in configs:
        (each["definition"] or {}).pop("documentation", None)
    return {
        "name": "",
        "error_count": sum(bool(value.errors) for _, value in found),
        "groups": [],
        "configs": sorted(configs, key=lambda each: str(each["value"]["name"])),
    }


PLUGINS = discover()
ANSWERS = {
    "worker_def": worker_def,
    "overrides": overrides,
    "enriched": enriched,
    "connector_def": connector_defaults,
    "config_fold": config_fold,
    "status_fold": status_fold,
    "java_map_write": java_map_write,
    "java_map_read": java_map_read,
    "parse": lambda asked: pair(parse_value(asked["text"])),
    "text": text,
    "from": from_connect,
    "to": lambda asked: pair(converter(asked).to_connect("t", data(asked))),
    "transform": lambda asked: record_to_json(plugin(asked).apply(record_from_json(asked["record"]))),
    "predicate": lambda asked: plugin(asked).test(record_from_json(asked["record"])),
    "validate": validate,
    "header_from": from_header,
    "header_to": lambda asked: pair(header_converter(asked).to_header("t", "h", data(asked))),
}
