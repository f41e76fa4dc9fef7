"""Schemas know where their columns are, and print themselves as ksqlDB does."""

from __future__ import annotations

import pytest

from ottla.sql import SqlError
from ottla.sql.schema import LogicalSchema, SqlColumn
from ottla.sql.types import BYTES, INTEGER, STRING, DecimalType


def test_a_schema_prints_its_columns_in_their_order_with_their_places() -> None:
    schema = LogicalSchema(
        (
            SqlColumn("V", INTEGER),
            SqlColumn("ID", STRING, "key"),
            SqlColumn("a`b", DecimalType(4, 2)),
            SqlColumn("H", BYTES, "headers", "k"),
        )
    )
    assert str(schema) == "`V` INTEGER, `ID` STRING KEY, `a``b` DECIMAL(4, 2), `H` BYTES HEADER('k')"


def test_columns_are_found_by_place_and_by_name() -> None:
    schema = LogicalSchema.of(key=[("ID", STRING)], value=[("V", INTEGER)])
    assert [column.name for column in schema.key] == ["ID"]
    assert [column.name for column in schema.value] == ["V"]
    assert schema.headers == ()
    assert schema.find("V") == SqlColumn("V", INTEGER)
    assert schema.find("v") is None


def test_two_values_of_one_name_are_refused_and_a_key_beside_a_value_is_not() -> None:
    assert len(LogicalSchema.of(key=[("A", STRING)], value=[("A", STRING)]).columns) == 2
    with pytest.raises(SqlError, match="Duplicate values found in schema: `A` INTEGER"):
        LogicalSchema.of(value=[("A", STRING), ("A", INTEGER)])
