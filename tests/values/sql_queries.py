"""Queries of every kind over topics of hostile records: what cannot be read is left out, and no query ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from ottla.sql.plan import QueryPlan
from ottla.sql.testing import Refused, outputs_of, run_case
from ottla.streams import Record
from tests.hostile_values import RAW, TEXTS
from tests.values.watched import Case, short

COLUMNS = "A BIGINT, B DOUBLE, C DECIMAL(10, 2), D STRING, E TIMESTAMP"
NESTED = "F ARRAY<STRING>, G MAP<STRING, BIGINT>, H STRUCT<P BIGINT, Q DATE>, X BYTES"
SOURCES = {
    "JSON": f"CREATE STREAM S (K STRING KEY, {COLUMNS}, {NESTED}) WITH (KAFKA_TOPIC='s', FORMAT='JSON');",
    "DELIMITED": f"CREATE STREAM S (K STRING KEY, {COLUMNS}) WITH (KAFKA_TOPIC='s', FORMAT='DELIMITED');",
    "KAFKA": "CREATE STREAM S (K BIGINT KEY, D STRING) WITH (KAFKA_TOPIC='s', FORMAT='KAFKA');",
}
QUERIES = (
    "CREATE STREAM O AS SELECT * FROM S;",
    "CREATE STREAM O AS SELECT K, UCASE(D) AS U, LEN(D) AS L, CAST(D AS BIGINT) AS W, CAST(D AS DECIMAL(9, 1)) V FROM S;",
    "CREATE STREAM O AS SELECT K, CAST(A AS STRING) AS U, A * A AS V, B / 3 AS W, CAST(E AS DATE) AS Y FROM S WHERE A > -1;",
    "CREATE STREAM O AS SELECT * FROM S PARTITION BY D;",
    "CREATE TABLE O AS SELECT D, COUNT(*) AS N, COLLECT_LIST(D) AS L, LATEST_BY_OFFSET(D) AS M FROM S GROUP BY D;",
    "CREATE TABLE O AS SELECT K, SUM(A) AS N, MAX(B) AS M, AVG(B) AS V, HISTOGRAM(D) AS L, TOPK(A, 3) T FROM S GROUP BY K;",
    "CREATE TABLE O AS SELECT D, COUNT(*) AS N FROM S WINDOW TUMBLING (SIZE 1 DAY) GROUP BY D;",
    "CREATE TABLE O AS SELECT D, COUNT(*) AS N FROM S WINDOW SESSION (1 DAY) GROUP BY D;",
    "CREATE STREAM O AS SELECT K, EXPLODE(F) AS N FROM S;",
    "CREATE STREAM O AS SELECT L.K AS K, L.D AS D, R.D AS N FROM S L JOIN R R WITHIN 1 DAY ON L.K = R.K;",
    "CREATE STREAM O WITH (TIMESTAMP='A') AS SELECT K, A FROM S;",
)
MOMENTS = (0, (1 << 53) + 1, (1 << 63) - 1)


def cases(*formats: str) -> Iterator[Case]:
    """Every format with every query over every value."""
    for format_, source in SOURCES.items():
        if formats and format_ not in formats:
            continue
        for query in QUERIES:
            plan = _plan(source + source.replace("STREAM S", "STREAM R") + query)
            for data in _bytes() if plan is not None else ():
                yield Case(f"{format_} {query} {short(data)}", lambda plan=plan, data=data: _run(plan, data), ())


def _plan(text: str) -> QueryPlan | None:
    """A query's plan; None where the format does not take it."""
    plans: list[QueryPlan] = []

    def engine(plan: QueryPlan, records: Iterable[Record]) -> Iterable[Record]:
        plans.append(plan)
        return ()

    try:
        run_case(text, [], engine=engine)
    except Refused:
        return None
    return plans[0]


def _bytes() -> Iterator[bytes | None]:
    yield from RAW
    for text in TEXTS:
        yield text.encode("utf-8", "surrogatepass")
        if len(text) < 10_000:
            yield json.dumps(dict.fromkeys("ABCDEFGHX", text)).encode()
            yield f'{{"A":{text},"B":{text},"C":{text},"D":{text},"E":{text}}}'.encode("utf-8", "surrogatepass")
            yield f"{text},{text},{text},{text},{text}".encode("utf-8", "surrogatepass")
    for whole in (0, -1, (1 << 63) - 1, -(1 << 63), 1 << 63):
        nested = f'"F":["x",null],"G":{{"":{whole}}},"H":{{"Q":{whole}}}'
        yield f'{{"A":{whole},"B":{whole},"C":1.5,"D":"x","E":{whole},{nested}}}'.encode()
        yield f"{whole},{whole},1.5,x,{whole}".encode()


def _run(plan: QueryPlan, data: bytes | None) -> None:
    keys = (data, b"k", b"\0" * 7 + b"\1")
    records = [Record(key, value, at, (), "s") for at in MOMENTS for key in keys for value in (data, b"x", data)]
    for _ in outputs_of(plan, records):
        pass
