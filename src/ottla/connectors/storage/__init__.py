"""What connectors share that keep topics as files of a store: partitioners, rotation, names, formats, and the writer of one
topic partition. They know no store; `connectors.s3` brings one."""

from ottla.connectors.storage.avro import AvroFormat, read_avro
from ottla.connectors.storage.formats import (
    FORMATS,
    BytesFormat,
    Encoder,
    FileFormat,
    JsonFormat,
    Output,
    format_name,
    needs_extra,
)
from ottla.connectors.storage.names import FileName, Names, Part
from ottla.connectors.storage.parquet import ParquetFormat, read_parquet
from ottla.connectors.storage.partitioners import PARTITIONERS, Partitioner, partitioner_of
from ottla.connectors.storage.path_format import PathFormat
from ottla.connectors.storage.projection import Compatibility
from ottla.connectors.storage.rotation import Rotation, RotationRules
from ottla.connectors.storage.settings import Key, define, file_format, format_rule, names_of, storage_keys, writer_plan
from ottla.connectors.storage.topic_writer import (
    HEADERS_SCHEMA,
    Held,
    Store,
    StoredFile,
    TopicWriter,
    Upload,
    WriterPlan,
    offset_of,
)

__all__ = [
    "FORMATS",
    "HEADERS_SCHEMA",
    "PARTITIONERS",
    "AvroFormat",
    "BytesFormat",
    "Compatibility",
    "Encoder",
    "FileFormat",
    "FileName",
    "Held",
    "JsonFormat",
    "Key",
    "Names",
    "Output",
    "ParquetFormat",
    "Part",
    "Partitioner",
    "PathFormat",
    "Rotation",
    "RotationRules",
    "Store",
    "StoredFile",
    "TopicWriter",
    "Upload",
    "WriterPlan",
    "define",
    "file_format",
    "format_name",
    "format_rule",
    "names_of",
    "needs_extra",
    "offset_of",
    "partitioner_of",
    "read_avro",
    "read_parquet",
    "storage_keys",
    "writer_plan",
]
