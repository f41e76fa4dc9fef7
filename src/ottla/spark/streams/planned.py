"""What each task of a micro-batch reads, as Spark has planned it: read from the plan, of which nothing runs."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base import ConfigError, Offset, TopicPartition
from ottla.spark.source.positions import OffsetRange
from ottla.spark.source.reader import RangePartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Reading", "planned_stretches", "readings"]


@dataclass(frozen=True)
class Reading:
    """How far a task without state comes in its input."""

    ends: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    branch: int = 0
    """Its place among the tasks that read the same partitions, each for another of the plan's branches."""
    branches: int = 1
    """How many those are; more than one note each how far they come, since none knows of the others."""


def planned_stretches(batch: DataFrame) -> list[list[OffsetRange]]:
    """Return the stretches that each task of a batch reads: a plan without shuffles, on sources of ours.

    Raises ConfigError where Spark does not say.
    """
    if not hasattr(batch, "_jdf"):
        raise ConfigError("spark.master", "sc://…", "Spark Connect does not say what a batch reads")
    return [_of_partition(each) for each in batch._jdf.queryExecution().toRdd().partitions()]


def _of_partition(partition: Any) -> list[OffsetRange]:
    while (kind := str(partition.getClass().getSimpleName())) == "UnionPartition":
        partition = partition.parentPartition()
    if kind != "DataSourceRDDPartition":
        words = f"a task of the query reads a {kind}, which does not say how far it comes"
        raise ConfigError("processing.guarantee", "exactly_once_v2", words)
    planned = (
        partition.inputPartition().get()
        if hasattr(partition, "inputPartition")
        else partition.inputPartitions().apply(0)
    )
    read = pickle.loads(bytes(planned.pickedPartition()))
    assert isinstance(read, RangePartition), "the rows are those of a source of ours"
    return [] if read.offsets is None else [read.offsets, *read.more]


def readings(tasks: Sequence[Sequence[OffsetRange]]) -> list[Reading]:
    """Return how far each task comes, by the stretches that it reads."""
    readers = Counter(each.partition for stretches in tasks for each in stretches)
    branches = max(readers.values(), default=1)
    before = Counter[TopicPartition]()
    found = []
    for stretches in tasks:
        branch = max((before[each.partition] for each in stretches), default=0)
        before.update(each.partition for each in stretches)
        found.append(Reading({each.partition: each.end for each in stretches}, branch, branches))
    return found
