"""What a topology is made of: sources, processors, sinks, the stores that they use and internal topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.java import compile_java

if TYPE_CHECKING:
    from ottla.streams.plan.operations import Operation
    from ottla.streams.serdes.basic import Serde

__all__ = ["Node", "ProcessorNode", "RepartitionTopic", "SinkNode", "SourceNode", "StoreSpec", "pattern_text"]


def pattern_text(pattern: re.Pattern[str]) -> str:
    """Return a compiled pattern of topics' names as Java's, which hosts on Spark read too."""
    flags = "".join(
        sign for flag, sign in ((re.I, "iu"), (re.S, "s"), (re.M, "m"), (re.X, "x")) if pattern.flags & flag
    )
    return f"(?{flags}){pattern.pattern}" if flags else pattern.pattern


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Reads topics, or all whose names match `pattern`."""

    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key: Serde | None = None
    value: Serde | None = None
    extractor: Any = None
    """A `TimestampExtractor`; None is the application's default."""
    offset_reset: str | None = None
    """`earliest`, `latest`, `none`; None is the application's default."""
    is_global: bool = False

    def topics_among(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the topics that it reads: those that it names, or those of the `known` names that match, in order."""
        if self.pattern is None:
            return self.topics
        pattern = compile_java(self.pattern)
        return tuple(each for each in sorted(known) if pattern.fullmatch(each))


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """Does `operation` with what its parents forward; `stores` are those that it reads or writes, in order."""

    name: str
    operation: Operation
    parents: tuple[str, ...]
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkNode:
    """Writes to a topic: its name, or a callable (key, value, record context) → name."""

    name: str
    topic: Any
    parents: tuple[str, ...]
    key: Serde | None = None
    value: Serde | None = None
    partitioner: Any = None
    """A callable (topic, key, value, partition count) → partition or None; None is Kafka's default partitioner."""


Node = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A state store.

    `kind`: key_value, timestamped_key_value, window, timestamped_window, session, versioned (`retention_ms` is its history);
    and those that Kafka makes for itself: suppress_buffer (of a table's changes), join_buffer (records that wait for a
    versioned table), outer_join (records that have met no partner; lists by time, side and key), subscriptions (of a
    foreign-key join: `key` is the foreign key's serde, `value` the subscription's).
    """

    name: str
    kind: str
    key: Serde
    """Of the key itself: a windowed store's entries are kept by (key, window)."""
    value: Serde
    """Of the value itself: timestamps are added by the kind."""
    retention_ms: int = -1
    window_size_ms: int = -1
    retain_duplicates: bool = False
    logged: bool = True
    """Whether it has a changelog topic `<application.id>-<name>-changelog`."""
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    cached: bool = True
    """Whether updates of a key may be coalesced (Materialized.withCachingDisabled); no matter for joins' stores."""
    queryable: bool = True
    """False for stores that Kafka makes for itself (their name is generated)."""
    source_topic: str | None = None
    """The topic that serves as the changelog where the store is a table of that topic and optimisation says so."""
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """An internal topic, `<application.id>-<name>`; `partitions` None means as many as its source has.

    `name` is as in `describe()`, with its ending: `-repartition`, or `-topic` for those of a foreign-key join.
    """

    name: str
    partitions: int | None = None
    key: Serde | None = None
    value: Serde | None = None
    """The serdes of what is in it, as its sink and its source have them too."""
