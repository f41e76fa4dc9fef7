"""What the report of a failed test says of its broker: topics and their ends, groups and their lag, what it has logged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.admin import GroupDescription, PartitionLag, describe_group, group_lag, list_groups
from ottla.base import OttlaError, TopicPartition
from ottla.client import EARLIEST, LATEST, BlockingClient, Isolation, Limits
from ottla.testing.own_client import OwnClient

if TYPE_CHECKING:
    from ottla.testing.kafka import Kafka

__all__ = ["report_text"]

LIMITS = Limits(connect_s=2.0, request_s=3.0, call_s=5.0, unreachable_s=1.0, backoff_s=0.05)
"""A report must not hold the run up, whatever has become of the broker."""
PARTITIONS_MAX = 40
GROUPS_MAX = 20
LOG_LINES_MAX = 20
TROUBLE = (" WARNING ", " ERROR ", " CRITICAL ", "Traceback")


def report_text(kafka: Kafka, *, log_from: int = 0) -> str:
    """Return the section's text; `log_from` is the log's position when the test began. Raises nothing."""
    lines = [f"broker {kafka.bootstrap_servers}"]
    try:
        with OwnClient(kafka.bootstrap_servers, LIMITS) as own:
            lines += _topics(own.calls)
            lines += _groups(own.calls)
    except Exception as error:  # whatever it is: it must not take the place of the test's own failure
        lines.append(f"it does not answer: {error or type(error).__name__}")
        lines += _logged("it has logged", kafka.log_lines()[-LOG_LINES_MAX:])
        return "\n".join(lines)
    new = [each for each in kafka.logged_since(log_from) if any(word in each for word in TROUBLE)]
    lines += _logged("it has logged in this test", new[-LOG_LINES_MAX:])
    return "\n".join(lines)


def _topics(client: BlockingClient) -> Iterator[str]:
    """Yield a line for each partition of topics that are not Kafka's own."""
    found = client.metadata()
    names = sorted(name for name, topic in found.topics.items() if not topic.is_internal)
    places = [each for name in names for each in sorted(found.partitions_of(name), key=lambda it: it.partition)]
    shown = [each for each in places[:PARTITIONS_MAX] if found.leader_of(each) is not None]
    starts = client.list_offsets(dict.fromkeys(shown, EARLIEST))
    ends = client.list_offsets(dict.fromkeys(shown, LATEST))
    stable = client.list_offsets(dict.fromkeys(shown, LATEST), isolation=Isolation.READ_COMMITTED)
    yield "topics:" if places else "topics: none"
    for place in places[:PARTITIONS_MAX]:
        if place not in ends:
            yield f"  {place}: no leader"
            continue
        end, open_from = int(ends[place].offset), int(stable[place].offset)
        pending = f", a transaction is open from offset {open_from} on" if open_from < end else ""
        yield f"  {place}: offsets {int(starts[place].offset)} to {end}{pending}"
    if len(places) > PARTITIONS_MAX:
        yield f"  and {len(places) - PARTITIONS_MAX} partitions more"


def _groups(client: BlockingClient) -> Iterator[str]:
    found = [each.group for each in list_groups(client) if each.is_consumer_group]
    yield "groups:" if found else "groups: none"
    for name in found[:GROUPS_MAX]:
        yield from _group(client, name)
    if len(found) > GROUPS_MAX:
        yield f"  and {len(found) - GROUPS_MAX} groups more"


def _group(client: BlockingClient, name: str) -> Iterator[str]:
    """Yield a group's line, and one for each partition that it reads or has committed in."""
    try:
        group: GroupDescription = describe_group(client, name)
        rows: Sequence[PartitionLag] = group_lag(client, group).partitions
    except OttlaError as error:
        yield f"  {name}: {error}"
        return
    members = f"{len(group.members)} member{'' if len(group.members) == 1 else 's'}"
    known = [each.lag for each in rows if each.lag is not None]
    yield f"  {name}: {group.state}, {members}, lag {sum(known) if known else 'not known'}"
    for row in rows[:PARTITIONS_MAX]:
        reader = f", read by {row.member.client_id}" if row.member is not None else ""
        yield f"    {_place(row.partition)}: {_position(row)}{reader}"


def _place(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _position(row: PartitionLag) -> str:
    if row.committed is None or row.committed.offset < 0:
        return f"nothing committed, the end is {row.log_end_offset}"
    return f"committed {row.committed.offset} of {row.log_end_offset}, lag {row.lag}"


def _logged(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {each.rstrip()}" for each in lines)] if lines else []
