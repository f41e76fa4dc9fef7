"""Serdes as columns: Spark reads and writes the bytes that Python reads and writes, and makes null of bad ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from ottla.streams import Serdes, Windowed, serde_of
from ottla.streams.errors import SerializationError
from tests.hostile_values import HOSTILE, RAW
from tests.streams.dsl.test_serdes import Place
from tests.streams.test_hostile_serdes import BROKEN, KINDS, SERDES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("streams-spark")]

BAD = b"\x01\x02\x03zz"
CASES: list[tuple[Any, list[Any]]] = [
    (Serdes.string(), ["grün", "", "a\x00b"]),
    (Serdes.short(), [-2, 32767, -32768]),
    (Serdes.int(), [258, -1, -(2**31)]),
    (Serdes.long(), [-1, 2**63 - 1, -(2**63)]),
    (Serdes.float(), [1.5, -0.0, 2.0**127]),
    (Serdes.double(), [-2.5, 1e300, 5e-324]),
    (Serdes.boolean(), [True, False]),
    (Serdes.bytes(), [b"\x00\xff"]),
    (Serdes.uuid(), [UUID(int=5)]),
    (Serdes.json(), [{"a": [1, None, "ü"]}, [1, 2]]),
    (Serdes.time_windowed(str, 10), [Windowed("k", 5, 15)]),
    (Serdes.session_windowed("long"), [Windowed(-7, 5, 9)]),
    (serde_of(Place), [Place("Ulm"), Place("Bern", "3000")]),
    (serde_of(list[int]), [[1, 2], []]),
    (Serdes.json(int), [5, -1]),
    (Serdes.json(str), ['a"b']),
]
ANY_BYTES = {"string", "bytes"}
"""Those for which no bytes are bad ones."""


def test_spark_and_python_agree_on_the_bytes_of_every_serde(spark: SparkSession) -> None:
    written = [[serde.serialize(value) for value in values] + [None, BAD] for serde, values in CASES]
    width = max(map(len, written))
    rows = list(zip(*([*column, *[None] * (width - len(column))] for column in written), strict=True))
    raw = spark.createDataFrame(rows, ", ".join(f"r{index} binary" for index in range(len(CASES))))
    read = raw.selectExpr(*(f"{serde.sql_decode(f'r{index}')} as v{index}" for index, (serde, _) in enumerate(CASES)))
    back = read.selectExpr(
        *(f"{serde.sql_encode(f'v{index}')} as b{index}" for index, (serde, _) in enumerate(CASES)),
        *(f"v{index} is null as n{index}" for index in range(len(CASES))),
    ).collect()
    for index, (serde, values) in enumerate(CASES):
        found = [row[index] if row[index] is None else bytes(row[index]) for row in back]
        assert found[: len(values) + 1] == written[index][: len(values) + 1], serde.name
        assert back[len(values)][len(CASES) + index], f"{serde.name}: null"
        assert back[len(values) + 1][len(CASES) + index] is (serde.name not in ANY_BYTES), f"{serde.name}: bad bytes"
        declared = (serde.sql_type or "").replace("`", "").replace(" ", "")
        assert read.schema[index].dataType.simpleString() == declared


def test_spark_refuses_the_bytes_that_python_refuses_and_reads_the_others_alike(spark: SparkSession) -> None:
    raws = [*RAW, *BROKEN]
    frame = spark.createDataFrame([(each,) for each in raws], "raw binary").coalesce(1)
    for serde in (each for each in SERDES if each.sql_type is not None and each.name != "json"):
        rows = frame.selectExpr(f"{serde.sql_decode('raw')} as value").selectExpr(
            "value", f"{serde.sql_encode('value')} as raw"
        )
        for raw, row in zip(raws, rows.collect(), strict=True):
            try:
                wanted = serde.deserialize(raw)
            except SerializationError as error:
                if "is missing" in str(error):
                    found = row.value and row.value.asDict()
                    assert not found or set(found.values()) == {None}, "of JSON without its fields they are null"
                    continue
                wanted = None
            if wanted is None:
                assert row.value is None, (serde.name, raw)
                continue
            assert bytes(row.raw) == serde.serialize(wanted), (serde.name, raw)


def test_spark_reads_hostile_json_or_refuses_it(spark: SparkSession) -> None:
    """Beyond what Python refuses: names that are there twice, NaN, half a surrogate pair, and a byte order mark."""
    raws = [*RAW, *BROKEN]
    serde = Serdes.json()
    frame = spark.createDataFrame([(each,) for each in raws], "raw binary").coalesce(1)
    rows = frame.selectExpr(f"{serde.sql_decode('raw')} as value").selectExpr(
        "value is null as refused", f"{serde.sql_encode('value')} as raw"
    )
    for raw, row in zip(raws, rows.collect(), strict=True):
        try:
            wanted = serde.deserialize(raw)
        except SerializationError:
            assert row.refused, raw
            continue
        if not row.refused and b"9" * 40 not in (raw or b"") and b"1e400" not in (raw or b""):
            assert serde.deserialize(None if row.raw is None else bytes(row.raw)) == wanted, raw


@pytest.mark.parametrize("name", sorted(KINDS))
def test_hostile_values_have_the_bytes_in_spark_that_they_have_in_python(name: str, spark: SparkSession) -> None:
    serde = serde_of(name)
    given = [
        serde.serialize(value)
        for label, schema, value in HOSTILE
        if schema.type is KINDS[name] and schema.name is None and "too large" not in label and label != "int64 huge"
    ]
    frame = spark.createDataFrame([(each,) for each in given], "raw binary").coalesce(1)
    decoded = frame.selectExpr(f"{serde.sql_decode('raw')} as value")
    back = [row[0] for row in decoded.selectExpr(serde.sql_encode("value")).collect()]
    assert [None if each is None else bytes(each) for each in back] == given
