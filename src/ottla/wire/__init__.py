"""Kafka's protocol: bytes to messages and back.

Frames and headers, every message of Kafka 4.3 (generated, `ottla.wire.messages`), hand-written readers and writers for
Produce and Fetch (`hot`), record batches and their compression, and batches as columns for Arrow. Pure: bytes come in as
arguments and go out as values, and whatever is malformed raises WireError before anything is allocated for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.wire.api_table import (
    ApiKey,
)
from ottla.wire.apis import (
    APIS,
    ApiSpec,
)
from ottla.wire.checksum import (
    crc32c,
)
from ottla.wire.codec import (
    decode,
    encode,
)
from ottla.wire.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    compress,
    decompress,
)
from ottla.wire.framing import (
    RequestHeader,
    encode_request,
    encode_response,
    read_request_header,
    read_response,
)
from ottla.wire.hot import (
    Fetch,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    NodeEndpoint,
    Produce,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceTopic,
    build_mode,
    read_fetch_request,
    read_produce_request,
    write_fetch_response,
    write_produce_response,
)
from ottla.wire.json_form import json_form
from ottla.wire.log_records import (
    COORDINATOR_TOPICS,
    decode_coordinator_key,
    decode_coordinator_value,
    decode_metadata_record,
    encode_coordinator_key,
    encode_coordinator_record,
    encode_coordinator_value,
    encode_metadata_record,
)
from ottla.wire.message import (
    Field,
    Message,
)
from ottla.wire.records import (
    BATCH_OVERHEAD,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Attributes,
    BatchHeader,
    BatchRules,
    Buffer,
    ControlType,
    Header,
    LegacyMessage,
    Record,
    RecordSpan,
    RecordsRefused,
    WritableBuffer,
    admit_batch,
    batch_size_at,
    build_batch,
    control_record,
    control_type,
    crc_is_valid,
    encode_batch,
    end_transaction_marker,
    iter_batch_records,
    iter_batches,
    iter_records,
    read_batch_header,
    read_legacy_entry,
    read_legacy_message,
    read_varlong,
    recompress_batch,
    record_spans,
    records_payload,
    stamp_batch,
    stamp_log_append_time,
    stamp_max_timestamp,
    validate_batches,
    varint,
    walk_records,
)
from ottla.wire.replica_fetch import (
    REPLICA_FETCH_VERSIONS,
    ReplicaFetched,
    ReplicaFetchedPartition,
    read_replica_fetch,
    replica_fetch,
)

if TYPE_CHECKING:
    from ottla.wire.columnar import (
        ColumnDecoder,
        Columns,
        Decoded,
        HeaderColumns,
        next_offset,
        walk_is_compiled,
    )
    from ottla.wire.columnar_encode import (
        BytesColumn,
        frame_records,
        hash_keys,
        pack_batch,
        varint_column,
    )

__all__ = [
    "APIS",
    "BATCH_OVERHEAD",
    "COORDINATOR_TOPICS",
    "DECOMPRESSED_BYTES_MAX",
    "LENGTH_END",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "REPLICA_FETCH_VERSIONS",
    "ApiKey",
    "ApiSpec",
    "Attributes",
    "BatchHeader",
    "BatchRules",
    "Buffer",
    "BytesColumn",
    "Codec",
    "ColumnDecoder",
    "Columns",
    "ControlType",
    "Decoded",
    "Fetch",
    "FetchPartition",
    "FetchTopic",
    "FetchedPartition",
    "FetchedTopic",
    "Field",
    "ForgottenTopic",
    "Header",
    "HeaderColumns",
    "LegacyMessage",
    "Message",
    "NodeEndpoint",
    "Produce",
    "ProducePartition",
    "ProduceTopic",
    "ProducedPartition",
    "ProducedTopic",
    "Record",
    "RecordSpan",
    "RecordsRefused",
    "ReplicaFetched",
    "ReplicaFetchedPartition",
    "RequestHeader",
    "WritableBuffer",
    "admit_batch",
    "batch_size_at",
    "build_batch",
    "build_mode",
    "compress",
    "control_record",
    "control_type",
    "crc32c",
    "crc_is_valid",
    "decode",
    "decode_coordinator_key",
    "decode_coordinator_value",
    "decode_metadata_record",
    "decompress",
    "encode",
    "encode_batch",
    "encode_coordinator_key",
    "encode_coordinator_record",
    "encode_coordinator_value",
    "encode_metadata_record",
    "encode_request",
    "encode_response",
    "end_transaction_marker",
    "frame_records",
    "hash_keys",
    "iter_batch_records",
    "iter_batches",
    "iter_records",
    "json_form",
    "next_offset",
    "pack_batch",
    "read_batch_header",
    "read_fetch_request",
    "read_legacy_entry",
    "read_legacy_message",
    "read_produce_request",
    "read_replica_fetch",
    "read_request_header",
    "read_response",
    "read_varlong",
    "recompress_batch",
    "record_spans",
    "records_payload",
    "replica_fetch",
    "stamp_batch",
    "stamp_log_append_time",
    "stamp_max_timestamp",
    "validate_batches",
    "varint",
    "varint_column",
    "walk_is_compiled",
    "walk_records",
    "write_fetch_response",
    "write_produce_response",
]

_COLUMNAR = {
    "ColumnDecoder": "ottla.wire.columnar",
    "Columns": "ottla.wire.columnar",
    "Decoded": "ottla.wire.columnar",
    "HeaderColumns": "ottla.wire.columnar",
    "next_offset": "ottla.wire.columnar",
    "walk_is_compiled": "ottla.wire.columnar",
    "BytesColumn": "ottla.wire.columnar_encode",
    "frame_records": "ottla.wire.columnar_encode",
    "hash_keys": "ottla.wire.columnar_encode",
    "pack_batch": "ottla.wire.columnar_encode",
    "varint_column": "ottla.wire.columnar_encode",
}


def __getattr__(name: str) -> Any:
    """Import what makes columns, and with it numpy, when it is first asked for."""
    if name not in _COLUMNAR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_COLUMNAR[name]), name)
