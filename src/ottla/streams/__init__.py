"""Kafka Streams' DSL in Python: a plan of streams and tables over topics, as an immutable value.

Pure: it makes plans (`StreamsBuilder`, `Topology`), says what they are (`describe`), cuts them into stages, and
holds the operations in Python (`engine`) for whatever Spark cannot say natively. The package `spark` runs them.
"""

from ottla.streams import commit, placing
from ottla.streams.checkpoints import (
    AGE_MS_MAX,
    Bounds,
    ChangelogPosition,
    DamagedCheckpointError,
    StateCheckpoint,
    WorkIdentity,
    read_checkpoint,
    state_shape,
    why_unusable,
    written_checkpoint,
)
from ottla.streams.dead_letters import Origin, ProcessingFailed, dead_letter_headers
from ottla.streams.dsl import aggregates as agg
from ottla.streams.dsl.branched import BranchedKStream
from ottla.streams.dsl.builder import StreamsBuilder
from ottla.streams.dsl.cogroup import CogroupedKStream
from ottla.streams.dsl.global_table import GlobalKTable
from ottla.streams.dsl.grouped import KGroupedStream
from ottla.streams.dsl.grouped_table import KGroupedTable
from ottla.streams.dsl.kstream import KStream
from ottla.streams.dsl.ktable import KTable
from ottla.streams.dsl.parameters import (
    Branched,
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    Materialized,
    Named,
    Produced,
    Repartitioned,
    StreamJoined,
    Suppressed,
    TableJoined,
)
from ottla.streams.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream
from ottla.streams.engine import (
    COLUMN_ROWS_MIN,
    BlockRecords,
    Change,
    ChangeColumns,
    EngineSettings,
    Executor,
    Output,
    OutputColumns,
    ProcessingError,
    Progress,
    Record,
    ResidentState,
    StateBackend,
    StoreChange,
    kept_memory,
    memory_over,
    standby_nodes,
)
from ottla.streams.errors import SerializationError, TopologyError
from ottla.streams.extractors import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    RecordMetadataTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    ValueTimestamp,
    WallclockTimestampExtractor,
)
from ottla.streams.functions import Function, vectorised
from ottla.streams.placing import StreamsWork
from ottla.streams.plan import operations
from ottla.streams.plan.evaluation import can_evaluate, evaluated
from ottla.streams.plan.explain import Explained, explain, explain_text
from ottla.streams.plan.nodes import ProcessorNode, RepartitionTopic, SinkNode, SourceNode, StoreSpec
from ottla.streams.plan.partitions import PartitionPlan, partition_plan, source_topics, subtopologies
from ottla.streams.plan.stage_nodes import STATELESS, functions_of
from ottla.streams.plan.stages import Entry, Stage, Stages, Tail, UnsupportedPlan, cut, is_native, serdes_at
from ottla.streams.plan.tasks import TaskGroup, expressions_in, task_groups, tasks_of
from ottla.streams.plan.topology import Topology
from ottla.streams.plan.topology_builder import TopologyBuilder
from ottla.streams.plan.upgrades import StageFacts, UpgradeError, check_upgrade, fingerprint
from ottla.streams.processor_api import (
    Cancellable,
    FixedKeyProcessor,
    Processor,
    ProcessorContext,
    ProcessRecord,
    PunctuationType,
    RecordMetadata,
    ValueAndTimestamp,
    ValueTransformer,
)
from ottla.streams.promotion import why_not_promoted
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.choice import SerdeLike, Serdes, serde_of
from ottla.streams.serdes.json import JsonSerde
from ottla.streams.serdes.windowed import SessionWindowedSerde, TimeWindowedSerde
from ottla.streams.settings import ExceptionPolicy, StreamsSettings
from ottla.streams.stores import StoreBuilder, Stores, StoreSupplier
from ottla.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windowed

__all__ = [
    "AGE_MS_MAX",
    "COLUMN_ROWS_MIN",
    "STATELESS",
    "BlockRecords",
    "Bounds",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "Cancellable",
    "Change",
    "ChangeColumns",
    "ChangelogPosition",
    "CogroupedKStream",
    "Consumed",
    "DamagedCheckpointError",
    "EmitStrategy",
    "EngineSettings",
    "Entry",
    "ExceptionPolicy",
    "Executor",
    "Explained",
    "FailOnInvalidTimestamp",
    "FixedKeyProcessor",
    "Function",
    "GlobalKTable",
    "Grouped",
    "JoinWindows",
    "Joined",
    "JsonSerde",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "Named",
    "Origin",
    "Output",
    "OutputColumns",
    "PartitionPlan",
    "ProcessRecord",
    "ProcessingError",
    "ProcessingFailed",
    "Processor",
    "ProcessorContext",
    "ProcessorNode",
    "Produced",
    "Progress",
    "PunctuationType",
    "Record",
    "RecordMetadata",
    "RecordMetadataTimestamp",
    "RepartitionTopic",
    "Repartitioned",
    "ResidentState",
    "Serde",
    "SerdeLike",
    "Serdes",
    "SerializationError",
    "SessionWindowedKStream",
    "SessionWindowedSerde",
    "SessionWindows",
    "SinkNode",
    "SlidingWindows",
    "SourceNode",
    "Stage",
    "StageFacts",
    "Stages",
    "StateBackend",
    "StateCheckpoint",
    "StoreBuilder",
    "StoreChange",
    "StoreSpec",
    "StoreSupplier",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsSettings",
    "StreamsWork",
    "Suppressed",
    "TableJoined",
    "Tail",
    "TaskGroup",
    "TimeWindowedKStream",
    "TimeWindowedSerde",
    "TimeWindows",
    "TimestampExtractor",
    "Topology",
    "TopologyBuilder",
    "TopologyError",
    "UnlimitedWindows",
    "UnsupportedPlan",
    "UpgradeError",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "ValueTimestamp",
    "ValueTransformer",
    "WallclockTimestampExtractor",
    "Windowed",
    "WorkIdentity",
    "agg",
    "can_evaluate",
    "check_upgrade",
    "commit",
    "cut",
    "dead_letter_headers",
    "evaluated",
    "explain",
    "explain_text",
    "expressions_in",
    "fingerprint",
    "functions_of",
    "is_native",
    "kept_memory",
    "memory_over",
    "operations",
    "partition_plan",
    "placing",
    "read_checkpoint",
    "serde_of",
    "serdes_at",
    "source_topics",
    "standby_nodes",
    "state_shape",
    "subtopologies",
    "task_groups",
    "tasks_of",
    "vectorised",
    "why_not_promoted",
    "why_unusable",
    "written_checkpoint",
]
