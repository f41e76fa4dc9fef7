"""Answers of a server as text: a table for a list, words for a command, lines for a description."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ottla.cli.sql_shell.tables import grid

__all__ = ["as_json", "as_text"]

Entity = Mapping[str, Any]


def as_json(found: Entity) -> str:
    """An answer as JSON."""
    return json.dumps(found, indent=2, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)


def as_text(found: Entity, width: int) -> str:
    """An answer as people read it."""
    write = _WRITERS.get(str(found.get("@type")))
    if write is None:
        return as_json(found)
    warnings = [f"WARNING: {each.get('message')}" for each in found.get("warnings", [])]
    return "\n".join([*warnings, write(found, width)])


def _status(found: Entity, width: int) -> str:
    return grid(["Message"], [[found["commandStatus"]["message"]]], width)


def _sources(found: Entity, width: int) -> str:
    key = "streams" if "streams" in found else "tables"
    kind = "Stream Name" if key == "streams" else "Table Name"
    rows = [
        [each["name"], each["topic"], each["keyFormat"], each["valueFormat"], each["isWindowed"]] for each in found[key]
    ]
    return grid([kind, "Kafka Topic", "Key Format", "Value Format", "Windowed"], rows, width)


def _queries(found: Entity, width: int) -> str:
    rows = [
        [
            each["id"],
            each["queryType"],
            ", ".join(f"{state}:{count}" for state, count in each["statusCount"].items()),
            ",".join(each["sinks"]),
            ",".join(each["sinkKafkaTopics"]),
            " ".join(each["queryString"].split()),
        ]
        for each in found["queries"]
    ]
    table = grid(["Query ID", "Query Type", "Status", "Sink Name", "Sink Kafka Topic", "Query String"], rows, width)
    return f"{table}\nFor detailed information on a Query run: EXPLAIN <Query ID>;"


def _topics(found: Entity, width: int) -> str:
    names = ["Kafka Topic", "Partitions", "Partition Replicas"]
    extended = found["@type"] == "kafka_topics_extended"
    rows = []
    for each in found["topics"]:
        copies = each["replicaInfo"]
        shown = str(copies[0]) if len(set(copies)) == 1 else ", ".join(map(str, copies))
        counts = [each["consumerCount"], each["consumerGroupCount"]] if extended else []
        rows.append([each["name"], len(copies), shown, *counts])
    return grid([*names, *(["Consumers", "ConsumerGroups"] if extended else [])], rows, width)


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema["type"]
    if kind == "STRUCT":
        inner = ", ".join(f"{each['name']} {_type(each['schema'])}" for each in schema["fields"])
        return f"STRUCT<{inner}>"
    if kind in ("ARRAY", "MAP"):
        return f"{kind}<{'STRING, ' if kind == 'MAP' else ''}{_type(schema['memberSchema'])}>"
    if kind == "DECIMAL" and schema.get("parameters"):
        return f"DECIMAL({schema['parameters']['precision']}, {schema['parameters']['scale']})"
    return {"STRING": "VARCHAR(STRING)"}.get(kind, str(kind))


def _fields(fields: Sequence[Mapping[str, Any]], kind: str, width: int) -> str:
    marks = {"KEY": " (primary key)" if kind == "TABLE" else " (key)", "HEADER": " (headers)"}
    rows = [[each["name"], _type(each["schema"]) + marks.get(each.get("type", ""), "")] for each in fields]
    return grid(["Field", "Type"], rows, width)


def _source(found: Entity, width: int) -> str:
    return _described(found["sourceDescription"], width)


def _described(each: Mapping[str, Any], width: int) -> str:
    lines = [f"Name                 : {each['name']}"]
    if each["extended"]:
        lines += [
            f"Type                 : {each['type']}",
            f"Timestamp field      : {each['timestamp'] or 'Not set - using <ROWTIME>'}",
            f"Key format           : {each['keyFormat']}",
            f"Value format         : {each['valueFormat']}",
            f"Kafka topic          : {each['topic']} (partitions: {each['partitions']}, replication: {each['replication']})",
            f"Statement            : {each['statement']}",
            "",
        ]
    lines.append(_fields(each["fields"], each["type"], width))
    if not each["extended"]:
        lines.append("For runtime statistics and query details run: DESCRIBE <Stream,Table> EXTENDED;")
        return "\n".join(lines)
    for name, key in (("Queries that read from this", "readQueries"), ("Queries that write to this", "writeQueries")):
        if each[key]:
            lines += ["", f"{name} {each['type']}", "-" * 34]
            lines += [
                f"{query['id']} ({query['state']}) : {' '.join(query['queryString'].split())}" for query in each[key]
            ]
    if each["statistics"]:
        lines += ["", "Local runtime statistics", "------------------------", each["statistics"]]
    if each["errorStats"]:
        lines += ["", "Errors", "------", each["errorStats"]]
    for summary in each["queryOffsetSummaries"]:
        lines += ["", f"Consumer Group       : {summary['groupId']}"]
        for topic in summary["topicSummaries"]:
            lines.append(f"Kafka topic          : {topic['kafkaTopic']}")
            rows = [
                [one["partition"], one["logStartOffset"], one["logEndOffset"], one["consumerOffset"], _lag(one)]
                for one in topic["offsets"]
            ]
            lines.append(grid(["Partition", "Start Offset", "End Offset", "Offset", "Lag"], rows, width))
    return "\n".join(lines)


def _lag(offsets: Mapping[str, int]) -> int:
    return offsets["logEndOffset"] - max(offsets["consumerOffset"], 0)


def _descriptions(found: Entity, width: int) -> str:
    return "\n\n".join(_described(each, width) for each in found["sourceDescriptions"]) or "none"


def _query(found: Entity, width: int) -> str:
    each = found["queryDescription"]
    lines = [
        f"ID                   : {each['id']}",
        f"Query Type           : {each['queryType']}",
        f"SQL                  : {each['statementText']}",
        *([f"Status               : {each['state']}"] if each["state"] else []),
        "",
        _fields(each["fields"], "STREAM", width),
        "",
        f"Sources that this query reads from: {', '.join(each['sources'])}",
        *([f"Sinks that this query writes to: {', '.join(each['sinks'])}"] if each["sinks"] else []),
        *(f"Error: {error['errorMessage']}" for error in each["queryErrors"]),
        "",
        each["topology"].rstrip(),
    ]
    return "\n".join(lines)


def _queries_described(found: Entity, width: int) -> str:
    return "\n\n".join(_query({"queryDescription": each}, width) for each in found["queryDescriptions"]) or "none"


def _function(found: Entity, width: int) -> str:
    lines = [
        f"Name        : {found['name']}",
        f"Author      : {found['author']}",
        f"Overview    : {found['description']}",
        f"Type        : {found['type']}",
        "Variations  :",
    ]
    for each in found["functions"]:
        arguments = ", ".join(f"{one['type']}{'...' if one['isVariadic'] else ''}" for one in each["arguments"])
        lines += [f"\n\tVariation   : {found['name']}({arguments})", f"\tReturns     : {each['returnType']}"]
    return "\n".join(lines)


def _rows(key: str, columns: Mapping[str, str]) -> Callable[[Entity, int], str]:
    def write(found: Entity, width: int) -> str:
        return grid(list(columns), [[each.get(name) for name in columns.values()] for each in found[key]], width)

    return write


def _types(found: Entity, width: int) -> str:
    return grid(["Type Name", "Schema"], [[name, _type(each)] for name, each in found["types"].items()], width)


def _connector(found: Entity, width: int) -> str:
    status = found["status"]
    tasks = [[each["id"], each["state"], each.get("trace", "")] for each in status["tasks"]]
    lines = [
        f"Name                 : {status['name']}",
        f"Class                : {found['connectorClass']}",
        f"Type                 : {status['type']}",
        f"State                : {status['connector']['state']}",
        f"WorkerId             : {status['connector'].get('worker_id')}",
        "",
        grid(["Task ID", "State", "Error Trace"], tasks, width),
    ]
    if found["topics"]:
        lines += ["", grid(["Related Topics"], [[each] for each in found["topics"]], width)]
    return "\n".join(lines)


def _words(text: Callable[[Entity], str]) -> Callable[[Entity, int], str]:
    return lambda found, width: text(found)


_WRITERS: Mapping[str, Callable[[Entity, int], str]] = {
    "currentStatus": _status,
    "streams": _sources,
    "tables": _sources,
    "queries": _queries,
    "kafka_topics": _topics,
    "kafka_topics_extended": _topics,
    "sourceDescription": _source,
    "source_descriptions": _descriptions,
    "queryDescription": _query,
    "queryDescriptions": _queries_described,
    "describe_function": _function,
    "function_names": _rows("functions", {"Function Name": "name", "Category": "type"}),
    "properties": _rows("properties", {"Property": "name", "Scope": "level", "Effective Value": "value"}),
    "variables": _rows("variables", {"Variable Name": "name", "Value": "value"}),
    "connector_list": _rows(
        "connectors", {"Connector Name": "name", "Type": "type", "Class": "className", "Status": "state"}
    ),
    "connector_plugins_list": _rows("connectorsPlugins", {"Class": "className", "Type": "type", "Version": "version"}),
    "connector_description": _connector,
    "type_list": _types,
    "warning_entity": _words(lambda found: f"WARNING: {found['message']}"),
    "connector_info": _words(lambda found: f"Created connector {found['info']['name']}"),
    "drop_connector": _words(lambda found: f'Dropped connector "{found["connectorName"]}"'),
    "assert_topic": _words(
        lambda found: f"Topic {found['topicName']} {'exists' if found['exists'] else 'does not exist'}."
    ),
    "assert_schema": _words(
        lambda found: f"Schema {found['subject'] or found['id']} {'exists' if found['exists'] else 'does not exist'}."
    ),
}
