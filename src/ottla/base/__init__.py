"""The words every package shares.

Identifiers and counts as distinct types, the error tree and Kafka's table of codes, the protocols through which the
world is reached (clock, randomness, off-loop work), and every limit that crosses a package. Pure: it imports nothing of
Ottla and touches nothing of the machine.
"""

from ottla.base.error_codes import RETRIABLE, ErrorCode
from ottla.base.errors import (
    FENCED,
    ConfigError,
    CorruptionError,
    KafkaError,
    MissingFileError,
    NoSpaceError,
    OttlaError,
    StorageError,
    UnwritableError,
    WireError,
)
from ottla.base.exact_numbers import (
    ExactDecoder,
    NumberError,
    decimal_of_text,
    decimal_of_unscaled,
    low_bits,
    plain_text,
    truncated,
)
from ottla.base.extras import bring_extra
from ottla.base.file_modes import UMASK, UMASK_DEFAULT, parse_umask
from ottla.base.ids import (
    ZERO_UUID,
    LeaderEpoch,
    Millis,
    NodeId,
    Offset,
    OffsetRange,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    Uuid,
)
from ottla.base.internal_topics import (
    INTERNAL_TOPICS,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from ottla.base.java_hash import coordinating_partition, java_hash
from ottla.base.late_imports import late_imports
from ottla.base.plain_values import plain_bytes, plain_value
from ottla.base.seams import Clock, Offload, Rng
from ottla.base.unreached import why_unreached
from ottla.base.uuids import parse_uuid, random_uuid, uuid_text

__all__ = [
    "FENCED",
    "INTERNAL_TOPICS",
    "METADATA_TOPIC",
    "OFFSETS_TOPIC",
    "RETRIABLE",
    "SHARE_STATE_TOPIC",
    "TRANSACTIONS_TOPIC",
    "UMASK",
    "UMASK_DEFAULT",
    "ZERO_UUID",
    "Clock",
    "ConfigError",
    "CorruptionError",
    "ErrorCode",
    "ExactDecoder",
    "KafkaError",
    "LeaderEpoch",
    "Millis",
    "MissingFileError",
    "NoSpaceError",
    "NodeId",
    "NumberError",
    "Offload",
    "Offset",
    "OffsetRange",
    "OttlaError",
    "ProducerEpoch",
    "ProducerId",
    "Rng",
    "StorageError",
    "TopicPartition",
    "UnwritableError",
    "Uuid",
    "WireError",
    "bring_extra",
    "coordinating_partition",
    "decimal_of_text",
    "decimal_of_unscaled",
    "java_hash",
    "late_imports",
    "low_bits",
    "parse_umask",
    "parse_uuid",
    "plain_bytes",
    "plain_text",
    "plain_value",
    "random_uuid",
    "truncated",
    "uuid_text",
    "why_unreached",
]
