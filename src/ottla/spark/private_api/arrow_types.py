"""Spark's types as Arrow's, and back, as PySpark itself takes one for the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["arrow_schema", "spark_schema"]


def arrow_schema(columns: StructType, *, timezone: str) -> pa.Schema:
    """Return the Arrow schema in which Spark exchanges rows of these columns with Python.

    By `pyspark.sql.pandas.types`: publicly a schema is to be had from rows that were collected only.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(columns, timezone=timezone)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the columns that Spark makes of Arrow's; by `pyspark.sql.pandas.types`, as `arrow_schema`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
