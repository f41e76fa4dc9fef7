"""Kafka Streams' DSL in Python: a plan of streams and tables over topics, as an immutable value.

The room is pure: it makes plans (`StreamsBuilder`, `Topology`), says what they are (`describe`), cuts them into stages, and
holds the operations in Python (`engine`) for whatever Spark cannot say natively. The `spark` room runs them.
"""

from ottla.streams import aggregates as agg
from ottla.streams.branched import BranchedKStream
from ottla.streams.builder import StreamsBuilder
from ottla.streams.cogroup import CogroupedKStream
from ottla.streams.dead_letters import Origin, ProcessingFailed, dead_letter_headers
from ottla.streams.engine import (
    Change,
    EngineSettings,
    Executor,
    Output,
    ProcessingError,
    Progress,
    Record,
    StateBackend,
    StoreChange,
)
from ottla.streams.errors import SerializationError, TopologyError
from ottla.streams.explain import Explained, explain, explain_text
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
from ottla.streams.global_table import GlobalKTable
from ottla.streams.grouped import KGroupedStream
from ottla.streams.grouped_table import KGroupedTable
from ottla.streams.json_serdes import JsonSerde
from ottla.streams.kstream import KStream
from ottla.streams.ktable import KTable
from ottla.streams.parameters import (
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
from ottla.streams.partitions import PartitionPlan, partition_plan, source_topics, subtopologies
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
from ottla.streams.serde_choice import SerdeLike, Serdes, serde_of
from ottla.streams.serdes import Serde
from ottla.streams.settings import ExceptionPolicy, StreamsSettings
from ottla.streams.stage_nodes import STATELESS, functions_of
from ottla.streams.stages import Entry, Stage, Stages, Tail, UnsupportedPlan, cut, serdes_at
from ottla.streams.stores import StoreBuilder, Stores, StoreSupplier
from ottla.streams.topology import ProcessorNode, RepartitionTopic, SinkNode, SourceNode, StoreSpec, Topology
from ottla.streams.topology_builder import TopologyBuilder
from ottla.streams.upgrades import StageFacts, UpgradeError, check_upgrade, fingerprint
from ottla.streams.windowed import SessionWindowedKStream, TimeWindowedKStream
from ottla.streams.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde
from ottla.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windowed

__all__ = [
    "STATELESS",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "Cancellable",
    "Change",
    "CogroupedKStream",
    "Consumed",
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
    "StoreBuilder",
    "StoreChange",
    "StoreSpec",
    "StoreSupplier",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsSettings",
    "Suppressed",
    "TableJoined",
    "Tail",
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
    "agg",
    "check_upgrade",
    "cut",
    "dead_letter_headers",
    "explain",
    "explain_text",
    "fingerprint",
    "functions_of",
    "partition_plan",
    "serde_of",
    "serdes_at",
    "source_topics",
    "subtopologies",
    "vectorised",
]
