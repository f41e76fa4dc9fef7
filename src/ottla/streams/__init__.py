"""Kafka Streams' DSL in Python: a plan of streams and tables over topics, as an immutable value.

The room is pure: it makes plans (`StreamsBuilder`, `Topology`), says what they are (`describe`), cuts them into stages, and
holds the operations in Python (`engine`) for whatever Spark cannot say natively. The `spark` room runs them.
"""

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
from ottla.streams.functions import Function, vectorised
from ottla.streams.partitions import PartitionPlan, TopologyError, partition_plan, source_topics, subtopologies
from ottla.streams.serdes import Serde
from ottla.streams.settings import ExceptionPolicy, StreamsSettings
from ottla.streams.stages import Entry, Stage, Stages, Tail, UnsupportedPlan, cut, serdes_at
from ottla.streams.topology import ProcessorNode, RepartitionTopic, SinkNode, SourceNode, StoreSpec, Topology
from ottla.streams.upgrades import StageFacts, UpgradeError, check_upgrade, fingerprint
from ottla.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windowed

__all__ = [
    "Change",
    "EngineSettings",
    "Entry",
    "ExceptionPolicy",
    "Executor",
    "Function",
    "JoinWindows",
    "Output",
    "PartitionPlan",
    "ProcessingError",
    "ProcessorNode",
    "Progress",
    "Record",
    "RepartitionTopic",
    "Serde",
    "SessionWindows",
    "SinkNode",
    "SlidingWindows",
    "SourceNode",
    "Stage",
    "StageFacts",
    "Stages",
    "StateBackend",
    "StoreChange",
    "StoreSpec",
    "StreamsSettings",
    "Tail",
    "TimeWindows",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "UnsupportedPlan",
    "UpgradeError",
    "Windowed",
    "check_upgrade",
    "cut",
    "fingerprint",
    "partition_plan",
    "serdes_at",
    "source_topics",
    "subtopologies",
    "vectorised",
]
