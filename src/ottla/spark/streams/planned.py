"""What each task of a micro-batch reads, as Spark has planned it: read from the plan, of which nothing runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.base import ConfigError, Offset, TopicPartition
from ottla.spark.private_api.batches import UnknownInputError, input_partitions
from ottla.spark.private_api.sessions import is_classic
from ottla.spark.source.positions import Stretch
from ottla.spark.source.reader import RangePartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import InputPartition

__all__ = ["Reading", "planned_stretches", "reading_of", "readings"]


@dataclass(frozen=True)
class Reading:
    """How far a task without state comes in its input."""

    ends: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    branch: int = 0
    """Its place among the tasks that read the same partitions, each for another of the plan's branches."""
    branches: int = 1
    """How many those are; more than one note each how far they come, since none knows of the others."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Ids of the topics that it reads."""


def planned_stretches(batch: DataFrame) -> list[list[Stretch]]:
    """Return the stretches that each task of a batch reads: a plan without shuffles, on sources of ours.

    Raises ConfigError where Spark does not say.
    """
    if not is_classic(batch):
        raise ConfigError("spark.master", "sc://…", "Spark Connect does not say what a batch reads")
    try:
        return [_stretches_of(each) for each in input_partitions(batch)]
    except UnknownInputError as error:
        words = f"a task of the query reads a {error.kind}, which does not say how far it comes"
        raise ConfigError("processing.guarantee", "exactly_once_v2", words) from None


def _stretches_of(read: InputPartition) -> list[Stretch]:
    assert isinstance(read, RangePartition), "the rows are those of a source of ours"
    return [] if read.offsets is None else [read.offsets, *read.more]


def readings(tasks: Sequence[Sequence[Stretch]]) -> list[Reading]:
    """Return how far each task comes, by the stretches that it reads."""
    readers = Counter(each.partition for stretches in tasks for each in stretches)
    branches = max(readers.values(), default=1)
    before = Counter[TopicPartition]()
    found = []
    for stretches in tasks:
        branch = max((before[each.partition] for each in stretches), default=0)
        before.update(each.partition for each in stretches)
        found.append(reading_of(stretches, branch, branches))
    return found


def reading_of(stretches: Sequence[Stretch], branch: int = 0, branches: int = 1) -> Reading:
    """Return how far a task comes by its stretches."""
    ids = {each.partition.topic: each.topic_id for each in stretches if each.topic_id}
    return Reading({each.partition: each.end for each in stretches}, branch, branches, ids)
