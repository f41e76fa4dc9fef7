"""Whose time a record has: its own, as in its topic, or what a timestamp extractor says."""

from __future__ import annotations

from typing import Any

from ottla.streams import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    RecordMetadataTimestamp,
    SourceNode,
    StreamsSettings,
    Topology,
)

__all__ = ["direct_time", "extractor_of", "invalid_time", "takes_own_time"]

AS_THEY_ARE = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, RecordMetadataTimestamp)
"""Extractors that take the record's own time; what becomes of a negative one is decided where records are fetched."""


def extractor_of(node: SourceNode, plan: Topology, settings: StreamsSettings) -> Any:
    """Return the source's own timestamp extractor, else the application's; none for repartition topics."""
    if plan.repartition_topics.keys() & set(node.topics):
        return None
    given = settings["default.timestamp.extractor"]
    return given if node.extractor is None and hasattr(given, "extract") else node.extractor


def takes_own_time(extractor: Any) -> bool:
    """True where an extractor leaves a record the time that it has in its topic."""
    return extractor is None or isinstance(extractor, AS_THEY_ARE)


def invalid_time(extractor: Any) -> str:
    """Return what becomes of a record whose own time is negative: `fail`, `skip`, or empty where an extractor decides.

    As in Kafka Streams: FailOnInvalidTimestamp, the default, stops the application, and a negative result drops the record.
    """
    if extractor is None or isinstance(extractor, FailOnInvalidTimestamp):
        return "fail"
    return "skip" if takes_own_time(extractor) else ""


def direct_time(extractor: Any) -> bool:
    """True where records' times ask for nothing between the fetching and a function of the rows that are fetched."""
    return takes_own_time(extractor) and invalid_time(extractor) != "skip"
