"""The plans that `bench.streams` measures, in Python; `StreamsPeer.java` has the same ones for Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.streams import Materialized, StreamsBuilder, TimeWindows, Topology, vectorised

if TYPE_CHECKING:
    import pyarrow

__all__ = ["PLANS"]

TOTALS = Materialized("totals", key_serde="string", value_serde="long")


def _upper(value: str) -> str:
    return value.upper()


@vectorised
def _upper_all(values: pyarrow.Array) -> pyarrow.Array:
    import pyarrow.compute as compute

    return compute.utf8_upper(values)


def _map(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(source, key_serde="string", value_serde="string")
    stream.map_values("upper(value)", value_serde="string").to(sink, key_serde="string", value_serde="string")
    return builder.build()


def _python(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(source, key_serde="string", value_serde="string")
    stream.map_values(_upper, value_serde="string").to(sink, key_serde="string", value_serde="string")
    return builder.build()


def _vectorised(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(source, key_serde="string", value_serde="string")
    stream.map_values(_upper_all, value_serde="string").to(sink, key_serde="string", value_serde="string")
    return builder.build()


def _words(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    lines = builder.stream(source, key_serde="string", value_serde="string")
    words = lines.flat_map_values("split(lower(value), ' ')", value_serde="string")
    grouped = words.group_by("value", key_serde="string", value_serde="string")
    grouped.count(materialized="counts").to_stream().to(sink, key_serde="string", value_serde="long")
    return builder.build()


def _windows(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream(source, key_serde="string", value_serde="string")
    windowed = stream.group_by_key().windowed_by(TimeWindows.of_size(minutes=1, grace="5m"))
    windowed.count(materialized="counts").to_stream().to(sink, value_serde="long")
    return builder.build()


def _stateful(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(source, key_serde="string", value_serde="string").group_by_key()
    totals = grouped.aggregate(lambda: 0, lambda key, value, total: total + len(value), materialized=TOTALS)
    totals.to_stream().to(sink, key_serde="string", value_serde="long")
    return builder.build()


PLANS: dict[str, Callable[[str, str], Topology]] = {
    "map": _map,
    "python": _python,
    "vectorised": _vectorised,
    "words": _words,
    "windows": _windows,
    "stateful": _stateful,
}
"""By name, from a source and a sink to a topology."""
