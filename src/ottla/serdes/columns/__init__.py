"""Arrow columns ↔ records' bytes by a registry's schemas; needs PyArrow and numpy, which the package alone does not.

Avro is read and written a field at a time over all rows at once, without an object per row; JSON Schema and Protobuf go by
their codecs, row by row. `ColumnReader` and `ColumnWriter` put that together with a registry.
"""

from ottla.serdes.columns.reading import ColumnReader
from ottla.serdes.columns.types import arrow_type_of, spark_type_of
from ottla.serdes.columns.writing import ColumnWriter

__all__ = ["ColumnReader", "ColumnWriter", "arrow_type_of", "spark_type_of"]
