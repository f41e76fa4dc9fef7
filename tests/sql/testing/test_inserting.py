"""INSERT INTO … SELECT: what a query selects becomes of the sink's types, where ksqlDB casts unasked."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.sql.testing import Refused, run_case

SOURCE = (
    "CREATE STREAM S (K STRING KEY, I INT, L BIGINT, D DECIMAL(4, 2), F DOUBLE, T STRING, A ARRAY<INT>, "
    "R STRUCT<X INT>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
)
ROW = {"I": 7, "L": 8, "D": Decimal("1.25"), "F": 1.5, "T": "2020-01-02", "A": [1, None], "R": {"X": 3}}


def inserted(type_: str, selected: str) -> object:
    sink = f"CREATE STREAM R (K STRING KEY, V {type_}) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON', PARTITIONS=1);"
    text = f"{SOURCE}{sink}INSERT INTO R SELECT K, {selected} AS V FROM S;"
    (found,) = run_case(text, [{"topic": "s", "key": "k", "value": ROW}])
    assert isinstance(found.value, dict)
    return found.value["V"]


@pytest.mark.parametrize(
    ("type_", "selected", "value"),
    [
        ("DECIMAL(5, 2)", "I", Decimal("7.00")),
        ("DECIMAL(5, 2)", "L", Decimal("8.00")),
        ("DECIMAL(6, 3)", "D", Decimal("1.250")),
        ("DECIMAL(5, 2)", "3", Decimal("3.00")),
        ("DECIMAL(5, 2)", "-3", Decimal("-3.00")),
        ("DECIMAL(5, 2)", "1.5", Decimal("1.50")),
        ("DECIMAL(5, 2)", "15E-1", Decimal("1.50")),
        ("DECIMAL(5, 2)", "3000000000 - 2999999999", Decimal("1.00")),
        ("BIGINT", "I", 7),
        ("DOUBLE", "D", Decimal("1.25")),
        ("DATE", "T", 18_263),
        ("TIMESTAMP", "T", 1_577_923_200_000),
        ("BYTES", "'YQ=='", "YQ=="),
        ("ARRAY<DECIMAL(3, 1)>", "A", [Decimal("1.0"), None]),
        ("STRUCT<X BIGINT>", "R", {"X": 3}),
        ("MAP<STRING, DOUBLE>", "MAP('a' := I)", {"a": Decimal("7.0")}),
    ],
)
def test_what_is_inserted_is_of_the_sinks_type(type_: str, selected: str, value: object) -> None:
    found = inserted(type_, selected)
    assert (found, str(found)) == (value, str(value))


@pytest.mark.parametrize(
    ("type_", "selected"),
    [
        ("INTEGER", "L"),
        ("INTEGER", "1.5"),
        ("DECIMAL(5, 2)", "F"),
        ("DECIMAL(3, 1)", "D"),
        ("DECIMAL(3, 1)", "12345"),
        ("DECIMAL(5, 2)", "1.555"),
        ("DECIMAL(5, 2)", "1E300"),
        ("STRING", "I"),
        ("BOOLEAN", "T"),
        ("INTEGER", "T"),
        ("ARRAY<STRING>", "A"),
        ("STRUCT<Y INT>", "R"),
    ],
)
def test_what_a_sink_cannot_hold_is_refused(type_: str, selected: str) -> None:
    with pytest.raises(Refused, match="Incompatible schema between results and sink"):
        inserted(type_, selected)


def test_a_key_becomes_of_the_sinks_type_too() -> None:
    text = (
        "CREATE STREAM S (K INT KEY, V INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"
        "CREATE STREAM R (K DECIMAL(4, 1) KEY, V INT) WITH (KAFKA_TOPIC='r', FORMAT='JSON');"
        "INSERT INTO R SELECT * FROM S;"
    )
    (found,) = run_case(text, [{"topic": "s", "key": 3, "value": {"V": 1}}])
    assert str(found.key) == "3.0"
