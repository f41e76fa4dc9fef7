"""Kafka Streams' DSL in Python: a plan of streams and tables over topics, as an immutable value.

The room is pure: it makes plans (`StreamsBuilder`, `Topology`), says what they are (`describe`), cuts them into stages, and
holds the operations in Python (`engine`) for whatever Spark cannot say natively. The `spark` room runs them.
"""

from ottla.streams.functions import Function, vectorised
from ottla.streams.serdes import Serde
from ottla.streams.settings import ExceptionPolicy, StreamsSettings
from ottla.streams.topology import ProcessorNode, RepartitionTopic, SinkNode, SourceNode, StoreSpec, Topology
from ottla.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windowed

__all__ = [
    "ExceptionPolicy",
    "Function",
    "JoinWindows",
    "ProcessorNode",
    "RepartitionTopic",
    "Serde",
    "SessionWindows",
    "SinkNode",
    "SlidingWindows",
    "SourceNode",
    "StoreSpec",
    "StreamsSettings",
    "TimeWindows",
    "Topology",
    "UnlimitedWindows",
    "Windowed",
    "vectorised",
]
