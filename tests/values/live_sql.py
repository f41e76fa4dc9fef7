"""Hostile names, literals, values and bodies through a SQL server's own door.

Whatever is asked has an answer: 200 with JSON that every reader takes, or a 4xx whose body names what was wrong. `Door` asks
and keeps what was no such answer in `faults`.
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.sql import quoted
from tests.hostile_values import NAMES, NUMBERS, RAW, TEXTS

SECONDS_MAX = 30
RECORD_BYTES_MAX = 250_000
KSQL, QUERY, STREAM, INSERTS = "/ksql", "/query", "/query-stream", "/inserts-stream"
PROTOBUF, V1, JSON = "application/vnd.ksql.v1+protobuf", "application/vnd.ksql.v1+json", "application/json"
FORMS = ((QUERY, V1), (QUERY, PROTOBUF), (STREAM, JSON), (STREAM, "application/vnd.ksqlapi.delimited.v1"))
AWAY = "cannot be asked"
"""Of a Connect that is not there: its own state, and no mistake of the server's."""
COLUMNS = {
    "A": "BIGINT", "B": "DOUBLE", "C": "DECIMAL(10, 2)", "D": "STRING", "E": "TIMESTAMP", "F": "DATE", "G": "TIME",
    "H": "INT",
    "I": "BOOLEAN", "J": "BYTES", "L": "ARRAY<STRING>", "M": "MAP<STRING, BIGINT>", "N": "STRUCT<P BIGINT, Q DATE>",
}  # fmt: skip
FLAT = {name: type_ for name, type_ in COLUMNS.items() if "<" not in type_}
STREAMS = {"SJ": ("JSON", COLUMNS), "SD": ("DELIMITED", FLAT), "SK": ("KAFKA", {"D": "STRING"})}
SETUP = "".join(
    f"CREATE STREAM {name} (K STRING KEY, {', '.join(f'{column} {type_}' for column, type_ in columns.items())}) "
    f"WITH (KAFKA_TOPIC='{name}', FORMAT='{format_}', PARTITIONS=1);"
    for name, (format_, columns) in STREAMS.items()
) + (
    "CREATE TABLE T AS SELECT K, COUNT(*) AS N, LATEST_BY_OFFSET(D) AS D, MAX(B) AS B, SUM(A) AS A, COLLECT_SET(C) AS C "
    "FROM SJ GROUP BY K;"
    "CREATE STREAM O AS SELECT K, UCASE(D) AS U, CAST(D AS BIGINT) AS W, 10 / A AS V, CAST(D AS DATE) Y FROM SJ;"
)
STATEMENTS = (
    "CREATE STREAM {name} (K STRING KEY, {name} INT) WITH (KAFKA_TOPIC='SJ', VALUE_FORMAT='JSON'); DROP STREAM {name};",
    "CREATE OR REPLACE TABLE {name} (K STRING PRIMARY KEY, A INT) WITH (KAFKA_TOPIC='SJ', VALUE_FORMAT='JSON');",
    "ALTER TABLE {name} ADD COLUMN {name} INT; DROP TABLE IF EXISTS {name};",
    "CREATE STREAM X (A INT) WITH (KAFKA_TOPIC={text}, VALUE_FORMAT='JSON', PARTITIONS=1); DROP STREAM X;",
    "CREATE STREAM X (A INT) WITH (KAFKA_TOPIC='SJ', VALUE_FORMAT={text}, WRAP_SINGLE_VALUE={text});",
    "CREATE STREAM X (A INT) WITH (KAFKA_TOPIC='SJ', FORMAT='DELIMITED', VALUE_DELIMITER={text}); DROP STREAM X;",
    "CREATE STREAM X (A BIGINT) WITH (KAFKA_TOPIC='SJ', FORMAT='JSON', TIMESTAMP='A', TIMESTAMP_FORMAT={text});"
    "DROP STREAM X;",
    "CREATE TYPE {name} AS STRUCT<{name} INT>; LIST TYPES; DROP TYPE {name};",
    "DEFINE {name} = {text}; LIST VARIABLES; UNDEFINE {name};",
    "SET {text} = {text};",
    "SET 'auto.offset.reset' = {text}; UNSET {text};",
    "ALTER SYSTEM {text} = {text};",
    "DESCRIBE {name};",
    "DESCRIBE {name} EXTENDED;",
    "DESCRIBE FUNCTION {name};",
    "DESCRIBE CONNECTOR {name};",
    "CREATE SOURCE CONNECTOR {name} WITH ('connector.class'={text});",
    "DROP CONNECTOR IF EXISTS {name};",
    "EXPLAIN {name};",
    "EXPLAIN SELECT {name} AS {name}, {text} AS X FROM SJ EMIT CHANGES;",
    "EXPLAIN SELECT K, {text} AS {name} FROM SJ WHERE D = {text} EMIT CHANGES;",
    "TERMINATE {name};",
    "PAUSE {name};",
    "RESUME {name};",
    "INSERT INTO {name} ({name}) VALUES ({text});",
    "INSERT INTO SJ (K, {name}) VALUES ({text}, {text});",
    "ASSERT TOPIC {name} WITH (PARTITIONS=1) TIMEOUT 0 SECONDS;",
    "ASSERT NOT EXISTS TOPIC {text} TIMEOUT 0 SECONDS;",
    "ASSERT SCHEMA SUBJECT {text} ID 1 TIMEOUT 0 SECONDS;",
    "LIST TOPICS LIKE {text};",
    "RUN SCRIPT {text};",
    "DROP STREAM {name} DELETE TOPIC;",
    "INSERT INTO {name} SELECT * FROM {name};",
)
"""For `/ksql`, quick ones: what begins queries is `MAKING`."""
MAKING = (
    "CREATE STREAM {name} AS SELECT K, A AS {name}, {text} AS X FROM SJ WHERE D = {text}; DROP STREAM {name} DELETE TOPIC;",
    "CREATE TABLE {name} WITH (PARTITIONS=1) AS SELECT D AS {name}, COUNT(*) AS C FROM SJ GROUP BY D; DROP TABLE {name};",
)
QUERIES = (
    "SELECT {name} FROM SJ;",
    "SELECT * FROM T WHERE K = {text};",
    "SELECT K, {text} AS {name} FROM T WHERE K >= {text} LIMIT 3;",
    "SELECT K, D LIKE {text} AS {name} FROM T WHERE D = {text} OR N > 0 LIMIT 3;",
    "SELECT K, {text} AS {name} FROM SJ WHERE D = {text} OR TRUE EMIT CHANGES LIMIT 2;",
    "SELECT * FROM {name};",
    "PRINT {name} FROM BEGINNING LIMIT 1;",
    "PRINT {text} FROM BEGINNING LIMIT 1;",
)
ANSWERS = (
    "SELECT * FROM SJ;", "SELECT * FROM SD;", "SELECT * FROM SK;", "SELECT * FROM T;", "SELECT * FROM O;",
    "SELECT K, ROWTIME, A * A AS X, B * B AS Y, C * C AS Z, LEN(D) AS W, FORMAT_TIMESTAMP(E, 'yyyy') AS V FROM SJ;",
    "SELECT K, CAST(E AS STRING) AS U, CAST(F AS STRING) AS V, CAST(G AS STRING) AS W, TO_BYTES(D, 'utf8') AS X FROM SJ;",
    "SELECT D, COUNT(*) AS N, SUM(A) AS S, AVG(B) AS B FROM SJ GROUP BY D;",
)  # fmt: skip


class Door:
    """Asks a server; `faults` is what was no answer to give."""

    def __init__(self, url: str) -> None:
        place = urllib.parse.urlsplit(url)
        assert place.hostname is not None
        self._line = http.client.HTTPConnection(place.hostname, place.port, timeout=SECONDS_MAX)
        self.faults: list[str] = []
        self.statuses: dict[int, int] = {}

    def ask(self, path: str, body: bytes, accepts: str = V1) -> bytes:
        """Return an answer's body; what is wrong with the answer is kept."""
        label = f"{path} {accepts} {body[:200]!r}"
        try:
            self._line.request("POST", path, body, {"Content-Type": JSON, "Accept": accepts})
            answer = self._line.getresponse()
            found = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._line.close()
            self.faults.append(f"{label}: no answer: {error!r}")
            return b""
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        fault = _fault(answer.status, found, answer.headers.get("Content-Type", ""))
        if fault is not None:
            self.faults.append(f"{label}: {fault}")
        return found

    def statement(self, text: str, path: str = KSQL, accepts: str = V1) -> bytes:
        """Ask a statement, from the beginning of what it reads."""
        asked = {"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}}
        return self.ask(path, json.dumps(asked).encode(), accepts)


def _fault(status: int, body: bytes, kind: str) -> str | None:
    """What is wrong with an answer."""
    if kind.startswith("text/plain"):
        body.decode()
        return None if status == 200 else f"{status} {body[:300]!r}"
    lines = body.splitlines() if "delimited" in kind else [body]
    try:
        documents = [json.loads(line.decode(), parse_constant=_no_number) for line in lines]
    except ValueError as error:
        return f"{status} {kind} is no JSON: {error}: {body[:300]!r}"
    if status == 200:
        return _hidden(documents)
    told = documents[0]
    code, message = told.get("error_code", 0), told.get("message")
    if code // 100 != status or not message:
        return f"{status} is not named: {body[:300]!r}"
    return f"{status} is our own mistake: {body[:500]!r}" if status >= 500 and AWAY not in message else None


def _hidden(documents: list[Any]) -> str | None:
    """A mistake of ours that is told behind the first rows."""
    for each in documents:
        for part in each if isinstance(each, list) else [each]:
            told = part.get("errorMessage", part) if isinstance(part, dict) else {}
            if isinstance(told, dict) and told.get("error_code", 0) >= 50000:
                return f"200, and then {told}"
    return None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def literal(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def names_and_texts() -> Iterator[tuple[str, str]]:
    """Names with texts: each name, and each text that is no longer than names are for a name too."""
    for at, name in enumerate((*NAMES, *(each for each in TEXTS if len(each) < 300), "")):
        yield quoted(name), literal(TEXTS[at % len(TEXTS)])
    for text in TEXTS:
        if len(text) < 200_000:
            yield "SJ", literal(text)


def filled(statements: Iterable[str], name: str, text: str) -> Iterator[str]:
    """Statements of a name and a text."""
    for each in statements:
        yield each.replace("{name}", name).replace("{text}", text)


def values() -> Iterator[str]:
    """INSERT VALUES of every value, into every column of its stream."""
    numbers = [
        *NUMBERS,
        "0",
        "1",
        "-1",
        "NULL",
        "TRUE",
        "1.5",
        "9.99",
        "-99999999.99",
        "99999999.99",
        "1e308",
        "-1e308",
    ]
    texts = [each for each in TEXTS if len(each) < 100_000]
    for stream, (_, columns) in STREAMS.items():
        for column, type_ in columns.items():
            for each in _of(type_, numbers, texts):
                yield f"INSERT INTO {stream} (K, {column}) VALUES ('k', {each});"
        for text in texts:
            yield f"INSERT INTO {stream} (K, D) VALUES ({literal(text)}, {literal(text)});"
        for moment in ("0", "-1", "9223372036854775807", "-9223372036854775808", "253402300800000"):
            yield f"INSERT INTO {stream} (ROWTIME, K, D) VALUES ({moment}, 'k', 'x');"


def _of(type_: str, numbers: list[str], texts: list[str]) -> list[str]:
    match type_.partition("<")[0]:
        case "ARRAY":
            return [f"ARRAY[{literal(each)}, NULL]" for each in texts[:60]] + ["ARRAY[]", "ARRAY[1]"]
        case "MAP":
            keys = [f"MAP({literal(each)} := 1)" for each in texts[:60]]
            return [*keys, *(f"MAP('a' := {each})" for each in numbers if len(each) < 6000), "MAP(NULL := 1)"]
        case "STRUCT":
            return [f"STRUCT(P := {each}, Q := '2020-01-01')" for each in numbers if len(each) < 6000] + [
                "STRUCT(Z := 1)"
            ]
        case "STRING" | "BYTES" | "DATE" | "TIME" | "TIMESTAMP":
            return [*(literal(each) for each in texts), *numbers[-12:]]
    return [*numbers, *(literal(each) for each in texts[:40])]


def lines() -> Iterator[bytes]:
    """Bodies of `/inserts-stream`: JSON as strangers write it."""
    head = b'{"target":"SJ"}\n'
    for column in ("K", *COLUMNS):
        for text in TEXTS:
            if len(text) < 10_000:
                yield head + f'{{"{column}":{text}}}\n'.encode("utf-8", "surrogatepass")
                yield head + json.dumps({column: text}).encode() + b"\n"
    for raw in RAW:
        yield raw or b""
        yield head + (raw or b"")
    for name in NAMES:
        yield json.dumps({"target": name}).encode() + b"\n" + json.dumps({name: 1}).encode() + b"\n"


def bodies() -> Iterator[tuple[str, bytes]]:
    """Bodies that are none, and sessions of hostile words."""
    for raw in (*RAW, *(each.encode("utf-8", "surrogatepass") for each in TEXTS)):
        for path in (KSQL, QUERY, STREAM, "/close-query"):
            yield path, raw or b""
        for key in ("ksql", "streamsProperties", "sessionVariables", "commandSequenceNumber"):
            if raw is not None and len(raw) < 10_000:
                yield KSQL, b'{"ksql":"LIST TYPES;","' + key.encode() + b'":' + raw + b"}"
    for text in (*TEXTS, *NAMES):
        if len(text) > 10_000:
            continue
        for given in ({text: text}, {"auto.offset.reset": text}, {"ksql.query.pull.table.scan.enabled": text}):
            asked = {"ksql": "LIST PROPERTIES;", "streamsProperties": given}
            yield KSQL, json.dumps(asked).encode()
        asked = {"ksql": "LIST VARIABLES; SELECT '${v}' FROM T;", "sessionVariables": {"v": text, text: text}}
        yield KSQL, json.dumps(asked).encode()
        yield QUERY, json.dumps({**asked, "ksql": "SELECT '${v}' AS X FROM T WHERE K = '${v}';"}).encode()
        yield "/close-query", json.dumps({"queryId": text}).encode()


def records() -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values of topics, as strangers write them."""
    for raw in (*RAW, *(each.encode("utf-8", "surrogatepass") for each in TEXTS)):
        short_ = None if raw is None else raw[:RECORD_BYTES_MAX]
        yield b"k", short_
        yield short_, b'{"A":1,"D":"x"}'
    for text in TEXTS:
        if len(text) < 10_000:
            yield b"k", f'{{"A":{text},"B":{text},"C":{text},"D":{text}}}'.encode("utf-8", "surrogatepass")
            yield b"k", json.dumps(dict.fromkeys(COLUMNS, text)).encode()
    for whole in (0, -1, (1 << 63) - 1, -(1 << 63)):
        yield b"k", json.dumps({"A": whole, "E": whole, "F": whole, "G": whole, "N": {"P": whole, "Q": whole}}).encode()


def shown(faults: list[str]) -> str:
    """The first faults, for a message."""
    return f"{len(faults)} faults:\n" + "\n".join(each[:800] for each in faults[:40])
