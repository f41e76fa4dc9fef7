"""What Connect keeps in its topics and files: record formats and their folds, as Kafka has them. Pure."""

from ottla.connect.storage.config_records import (
    ConnectorConfig,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetState,
    TargetStateChange,
    TaskConfig,
    TaskCount,
    TasksCommit,
    Unreadable,
    decode_config,
    encode_config,
)
from ottla.connect.storage.config_state import (
    ConfigState,
    ConnectorRemoved,
    ConnectorUpdated,
    TargetStateChanged,
    TasksUpdated,
    apply_config,
)
from ottla.connect.storage.java_map import read_java_map, write_java_map
from ottla.connect.storage.offset_records import OffsetState, StoredOffset, apply_offset, check_offset, encode_offset
from ottla.connect.storage.sink_offsets import parse_sink_offsets, sink_group, sink_offsets
from ottla.connect.storage.status_records import (
    State,
    Status,
    StatusState,
    TopicUse,
    apply_status,
    encode_status,
    encode_topic_use,
    status_of,
)
from ottla.connect.storage.task_id import TaskId, parse_task_id

__all__ = [
    "ConfigState",
    "ConnectorConfig",
    "ConnectorRemoved",
    "ConnectorUpdated",
    "LoggerLevel",
    "OffsetState",
    "RestartRequest",
    "SessionKey",
    "State",
    "Status",
    "StatusState",
    "StoredOffset",
    "TargetState",
    "TargetStateChange",
    "TargetStateChanged",
    "TaskConfig",
    "TaskCount",
    "TaskId",
    "TasksCommit",
    "TasksUpdated",
    "TopicUse",
    "Unreadable",
    "apply_config",
    "apply_offset",
    "apply_status",
    "check_offset",
    "decode_config",
    "encode_config",
    "encode_offset",
    "encode_status",
    "encode_topic_use",
    "parse_sink_offsets",
    "parse_task_id",
    "read_java_map",
    "sink_group",
    "sink_offsets",
    "status_of",
    "write_java_map",
]
