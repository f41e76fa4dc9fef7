"""The hand-written hot path of the wire: Produce and Fetch, and whether this process runs it compiled."""

from __future__ import annotations

from ottla.wire import hot_fetch, hot_primitives, hot_produce, record_walk
from ottla.wire.hot_fetch import (
    Fetch,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchTopic,
    FetchWriter,
    ForgottenTopic,
    read_fetch_request,
    write_fetch_response,
)
from ottla.wire.hot_produce import (
    NodeEndpoint,
    Produce,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceTopic,
    read_produce_request,
    write_produce_response,
)
from ottla.wire.quick_fetch import FetchAnswers, FetchShape, SingleFetch, fetch_offset_at
from ottla.wire.quick_produce import AnswerTemplate, Beginning, Shape, beginning_end

__all__ = [
    "AnswerTemplate",
    "Beginning",
    "Fetch",
    "FetchAnswers",
    "FetchPartition",
    "FetchShape",
    "FetchTopic",
    "FetchWriter",
    "FetchedPartition",
    "FetchedTopic",
    "ForgottenTopic",
    "NodeEndpoint",
    "Produce",
    "ProducePartition",
    "ProduceTopic",
    "ProducedPartition",
    "ProducedTopic",
    "Shape",
    "SingleFetch",
    "beginning_end",
    "build_mode",
    "fetch_offset_at",
    "read_fetch_request",
    "read_produce_request",
    "write_fetch_response",
    "write_produce_response",
]


def build_mode() -> str:
    """Return `compiled` where every hot module of this package runs as machine code, else `pure`."""
    modules = (hot_fetch, hot_primitives, hot_produce, record_walk)
    return "pure" if any((module.__file__ or "").endswith(".py") for module in modules) else "compiled"
