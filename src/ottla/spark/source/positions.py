"""From options to partitions and offsets: what the driver decides before any record is read."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from ottla.base import ZERO_UUID, ConfigError, ErrorCode, KafkaError, Millis, Offset, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, Cluster, Isolation, Limits
from ottla.java import compile_java
from ottla.spark.source.options import Connecting, OffsetChoice, ReadOptions, Subscription
from ottla.spark.source.secured import network_of

__all__ = [
    "Multiples",
    "Planned",
    "Stretch",
    "connect",
    "duration_ms",
    "ending_offsets",
    "find_partitions",
    "find_partitions_and_ids",
    "has_been_made_again",
    "ids_of",
    "limited",
    "offsets_of_json",
    "offsets_to_json",
    "reset_position",
    "split_ranges",
    "starting_offsets",
]

log = logging.getLogger(__name__)
Offsets = dict[TopicPartition, Offset]
IDS, BEGUN = "@ids", "@begun"
"""Beside the topics in a query's offsets; no topic has such a name."""
SETTLED_SECONDS = 5.0
"""How long a topic has to have another id until it counts as made again: a broker may hear of a new topic late."""
LOOK_SECONDS = 0.2


class Stretch(NamedTuple):
    """Records of one partition that are to be read, by offset; `end` is not included."""

    partition: TopicPartition
    start: Offset
    end: Offset
    topic_id: str = ""
    """Which topic is meant, of those that have had the name: its id in hexadecimal; empty for the one that has it."""


@dataclass(frozen=True)
class Planned:
    """How far a micro-batch goes, and in which topics: a topic that is made again begins at offset 0 under the same name."""

    offsets: Mapping[TopicPartition, Offset]
    ids: Mapping[str, str] = field(default_factory=dict)
    """Topics' ids, by name, in hexadecimal; topics without one are those that have the name now."""
    begun: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    """Where the batch begins in partitions that came, or whose topic was made again, since the batch before it."""

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Planned:
        """Read what `to_json`, or `offsets_to_json`, wrote."""
        return cls(offsets_of_json(found), found.get(IDS, {}), offsets_of_json(found.get(BEGUN, {})))

    def is_at(self, other: Planned) -> bool:
        """Whether another goes as far in the same topics."""
        return (self.offsets, self.ids) == (other.offsets, other.ids)

    def to_json(self) -> dict[str, Any]:
        """Return it as a checkpoint has it: offsets as of Spark's Kafka connector, and the rest beside them."""
        made: dict[str, Any] = dict(offsets_to_json(self.offsets))
        ids = {name: self.ids[name] for name in sorted(made) if name in self.ids}
        if ids:
            made[IDS] = ids
        if self.begun:
            made[BEGUN] = offsets_to_json(self.begun)
        return made


def connect(connecting: Connecting) -> BlockingClient:
    """Open a client as the options say."""
    limits = Limits(request_s=connecting.request_timeout_ms / 1000)
    servers, network = [str(each) for each in connecting.bootstrap], network_of(connecting.security)
    return BlockingClient(servers, client_id=connecting.client_id, limits=limits, network=network)


def find_partitions(client: BlockingClient, subscription: Subscription) -> list[TopicPartition]:
    """Return the partitions to read now, in order; raises KafkaError for a topic that does not exist."""
    return find_partitions_and_ids(client, subscription)[0]


def find_partitions_and_ids(
    client: BlockingClient, subscription: Subscription
) -> tuple[list[TopicPartition], dict[str, str]]:
    """Return the partitions to read now, in order, and their topics' ids; raises KafkaError for an unknown topic."""
    if subscription.pattern:
        cluster = client.metadata()
        pattern = compile_java(subscription.pattern)
        names: Iterable[str] = sorted(
            name for name, topic in cluster.topics.items() if pattern.fullmatch(name) and not topic.is_internal
        )
    else:
        names = subscription.topics or dict.fromkeys(each.topic for each in subscription.assigned)
        cluster = client.metadata(names)
        for name in names:
            found = cluster.topics.get(name)
            code = found.error if found is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code:
                raise KafkaError(code, f"topic {name}: {code.name}")
    existing = [partition for name in names for partition in cluster.partitions_of(name)]
    ids = ids_of(cluster)
    if not subscription.assigned:
        return existing, ids
    absent = [str(partition) for partition in subscription.assigned if partition not in existing]
    if absent:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"assign: {', '.join(absent)} does not exist")
    return sorted(subscription.assigned), ids


def ids_of(cluster: Cluster) -> dict[str, str]:
    """Return the ids of the topics that are there, by name, in hexadecimal."""
    topics = (each for each in cluster.topics.values() if not each.error and each.topic_id != ZERO_UUID)
    return {each.name: each.topic_id.hex() for each in topics}


def has_been_made_again(client: BlockingClient, topic: str, identity: str) -> bool:
    """Whether another topic than that with the id has its name by now, and has had it for a while."""
    until = time.monotonic() + SETTLED_SECONDS
    while (found := ids_of(client.metadata([topic])).get(topic)) != identity:
        if time.monotonic() >= until:
            return found is not None
        time.sleep(LOOK_SECONDS)
    return False


def starting_offsets(client: BlockingClient, partitions: list[TopicPartition], options: ReadOptions) -> Offsets:
    """Return where each partition's reading begins.

    With `reset`, partitions that came since the offsets were chosen begin at their beginning, as those that come later do,
    and those that are gone keep theirs.
    """
    given = options.starting.by_partition
    if not options.reset or options.starting.kind != "offsets" or not given or set(given) == set(partitions):
        return _resolve(client, partitions, options.starting, options.isolation)
    found = _resolve(client, sorted(given), options.starting, options.isolation)
    new = [each for each in partitions if each not in given]
    return {**found, **_list(client, dict.fromkeys(new, EARLIEST), options.isolation)}


def reset_position(client: BlockingClient, partition: TopicPartition, reset: str, end: Offset, why: str) -> Offset:
    """Return where `auto.offset.reset` lets reading go on, of a stretch up to `end`, and say so in the log.

    Raises ConfigError for `none`.
    """
    if reset == "none":
        raise ConfigError("auto.offset.reset", "none", f"{why}; earliest or latest says where the application goes on")
    at = EARLIEST
    if reset.startswith("by_duration:"):
        at = Millis(int(time.time() * 1000) - duration_ms(reset.partition(":")[2]))
    if reset == "latest":
        found = end
    else:
        found = client.list_offsets({partition: at})[partition].offset
        found = end if found < 0 else min(found, end)
    log.warning("%s: auto.offset.reset is %s, so reading goes on at offset %d", why, reset, found)
    return found


def duration_ms(text: str) -> int:
    """Return the milliseconds of an ISO 8601 duration in days, hours, minutes and seconds, as Kafka's by_duration has it."""
    match = re.fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text)
    assert match is not None, f"the settings have checked it: {text}"
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000)


def ending_offsets(client: BlockingClient, partitions: list[TopicPartition], options: ReadOptions) -> Offsets:
    """Return where each partition's reading ends; that offset is not read."""
    return _resolve(client, partitions, options.ending, options.isolation)


def _resolve(
    client: BlockingClient, partitions: list[TopicPartition], choice: OffsetChoice, isolation: Isolation
) -> Offsets:
    if choice.kind == "offsets":
        _same_partitions(choice, partitions)
        special = {each: Millis(choice.by_partition[each]) for each in partitions if choice.by_partition[each] < 0}
        listed = _list(client, special, isolation)
        return {each: listed.get(each, Offset(choice.by_partition[each])) for each in partitions}
    if choice.kind == "earliest":
        return _list(client, dict.fromkeys(partitions, EARLIEST), isolation)
    latest = _list(client, dict.fromkeys(partitions, LATEST), isolation)
    if choice.kind == "latest":
        return latest
    if choice.kind == "timestamps":
        _same_partitions(choice, partitions)
        times = {each: Millis(choice.by_partition[each]) for each in partitions}
    else:
        times = dict.fromkeys(partitions, Millis(choice.timestamp_ms))
    found = _list(client, times, isolation)
    for each, offset in found.items():
        if offset < 0 and not choice.latest_when_later:
            raise ConfigError(
                choice.option,
                times[each],
                f"{each} has no record that late; with startingOffsetsByTimestampStrategy=latest it begins at its end",
            )
    return {each: offset if offset >= 0 else latest[each] for each, offset in found.items()}


def _same_partitions(choice: OffsetChoice, partitions: list[TopicPartition]) -> None:
    """Refuse offsets that leave a partition out or name one that is not read, as Spark's Kafka connector does."""
    given = set(choice.by_partition)
    if given != set(partitions):
        missing = ", ".join(map(str, sorted(set(partitions) - given))) or "none"
        extra = ", ".join(map(str, sorted(given - set(partitions)))) or "none"
        raise ConfigError(
            choice.option,
            ", ".join(map(str, sorted(given))),
            f"every partition that is read must be there, and no other (missing: {missing}; not read: {extra})",
        )


def _list(client: BlockingClient, wanted: Mapping[TopicPartition, Millis], isolation: Isolation) -> Offsets:
    return (
        {each: found.offset for each, found in client.list_offsets(wanted, isolation=isolation).items()}
        if wanted
        else {}
    )


def limited(start: Offsets, latest: Offsets, rows_max: int) -> Offsets:
    """Return ends at most `rows_max` offsets ahead in all, shared out by what each partition has waiting."""
    waiting = {each: max(0, latest[each] - start[each]) for each in latest}
    total = sum(waiting.values())
    if total <= rows_max:
        return {each: Offset(max(latest[each], start[each])) for each in latest}
    ends: Offsets = {}
    for each, count in waiting.items():
        share = count * rows_max / total
        # as in Spark's Kafka connector: less than one row rounds up, so that no partition starves
        rows = int(share) if share >= 1 else min(count, 1)
        ends[each] = Offset(start[each] + min(rows, count))
    return ends


class Multiples:
    """Ends of micro-batches at whole multiples of so many offsets from where each partition stands (`offsetMultiple`).

    What is less waits for more, at most `delay_ms` from when it was first seen.
    """

    def __init__(self, multiple: int | None, delay_ms: int | None) -> None:
        self._multiple = multiple
        self._delay_s = None if delay_ms is None else delay_ms / 1000
        self._seen: dict[TopicPartition, tuple[Offset, float]] = {}

    def ends(self, start: Offsets, latest: Offsets, rows_max: int | None, now_s: float) -> Offsets:
        """Return the ends of the next batch; `rows_max` is kept as far as one multiple of each partition allows."""
        assert self._multiple is not None
        found = {each: self._end(each, start[each], latest[each], now_s) for each in latest}
        if rows_max is None or sum(found[each] - start[each] for each in found) <= rows_max:
            return found
        for each, limit in limited(start, found, rows_max).items():
            whole = max(self._multiple, (limit - start[each]) // self._multiple * self._multiple)
            found[each] = min(found[each], Offset(start[each] + whole))
        return found

    def _end(self, partition: TopicPartition, start: Offset, latest: Offset, now_s: float) -> Offset:
        assert self._multiple is not None
        waiting = max(0, latest - start)
        whole = waiting // self._multiple * self._multiple
        if whole or not waiting:
            self._seen.pop(partition, None)
            return Offset(start + whole)
        at, since = self._seen.setdefault(partition, (start, now_s))
        if at != start:
            self._seen[partition] = start, now_s
        elif self._delay_s is not None and now_s - since >= self._delay_s:
            return latest
        return start


def split_ranges(ranges: Iterable[Stretch], partitions_min: int | None) -> list[Stretch]:
    """Return at least `partitions_min` ranges where there are that many offsets, larger ones split into more pieces."""
    whole = [each for each in ranges if each.end > each.start]
    if partitions_min is None or len(whole) >= partitions_min:
        return whole
    total = sum(each.end - each.start for each in whole)
    split: list[Stretch] = []
    for each in whole:
        size = each.end - each.start
        pieces = min(size, max(1, -(-size * partitions_min // total)))
        bounds = [Offset(each.start + size * index // pieces) for index in range(pieces + 1)]
        split += [Stretch(each.partition, *pair, each.topic_id) for pair in pairwise(bounds)]
    return split


def offsets_to_json(offsets: Mapping[TopicPartition, Offset]) -> dict[str, dict[str, int]]:
    """Return offsets as Spark's Kafka connector writes them into checkpoints: topic, partition, offset."""
    found: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found


def offsets_of_json(found: Mapping[str, Any]) -> Offsets:
    """Read what `offsets_to_json` wrote, or the offsets of what `Planned` wrote."""
    return {
        TopicPartition(topic, int(partition)): Offset(offset)
        for topic, partitions in found.items()
        if topic not in (IDS, BEGUN)
        for partition, offset in partitions.items()
    }
