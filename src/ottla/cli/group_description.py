"""`ottla consumer-groups --describe`: a group's offsets and lag, its members, or its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.admin import GroupDescription, by_topic, describe_group, group_lag
from ottla.base import TopicPartition
from ottla.cli.options import warn
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from ottla.client import BlockingClient

__all__ = ["describe_groups"]

COLUMN = 15
"""The narrowest that a column of Kafka's tables gets."""
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
Row = dict[str, Any]


def describe_groups(client: BlockingClient, args: Namespace, groups: Sequence[str]) -> None:
    """Print what the options ask for of each group, one table after another."""
    views = [describe_group(client, group) for group in sorted(set(groups))]
    kind = "members" if args.members else "state" if args.state is not None else "offsets"
    rows = {view.group: ROWS[kind](client, view) for view in views}
    if args.output != "text":
        print_answer(args.output, answer(kind, [row for each in rows.values() for row in each]))
        return
    for view in views:
        if kind == "state" or view.state != "Dead":
            TEXTS[kind](view, rows[view.group], verbose=args.verbose)
        notice(view)


def notice(view: GroupDescription) -> None:
    """Say beside the table why there may be less in it than expected."""
    if view.state == "Empty":
        warn(f"\nConsumer group '{view.group}' has no active members.")
    elif view.state in REBALANCING:
        warn(f"\nWarning: Consumer group '{view.group}' is rebalancing.")


def offset_rows(client: BlockingClient, view: GroupDescription) -> list[Row]:
    """Return a row for each partition that a member reads, and for each further one with a committed offset."""
    found = group_lag(client, view)
    if found.ends_unknown is not None:
        warn(f"Warning: the end of some partitions is not known: {found.ends_unknown}")
    return [
        {
            "group": view.group,
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "leaderEpoch": each.committed.leader_epoch if each.committed is not None else None,
            "currentOffset": each.committed.offset if each.committed is not None else None,
            "logEndOffset": each.log_end_offset,
            "lag": each.lag,
            "consumerId": each.member.member_id if each.member is not None else None,
            "host": each.member.host if each.member is not None else None,
            "clientId": each.member.client_id if each.member is not None else None,
        }
        for each in found.partitions
    ]


def member_rows(client: BlockingClient, view: GroupDescription) -> list[Row]:
    """Return a row for each member."""
    return [
        {
            "group": view.group,
            "consumerId": each.member_id,
            "groupInstanceId": each.instance_id,
            "host": each.host,
            "clientId": each.client_id,
            "partitions": len(each.assignment),
            "currentEpoch": each.epoch,
            "currentAssignment": assignment_text(each.assignment),
            "targetEpoch": view.target_epoch,
            "targetAssignment": None if each.target is None else assignment_text(each.target),
        }
        for each in view.members
    ]


def assignment_text(partitions: Sequence[TopicPartition]) -> str:
    """Return `t:0,1;u:0`, and nothing for nothing."""
    return ";".join(
        f"{topic}:{','.join(str(each.partition) for each in found)}" for topic, found in by_topic(partitions).items()
    )


def state_rows(client: BlockingClient, view: GroupDescription) -> list[Row]:
    """Return the one row of the group's state."""
    row = {
        "group": view.group,
        "coordinator": str(view.coordinator.address),
        "coordinatorId": view.coordinator.node_id,
        "assignmentStrategy": view.assignor or None,
        "state": view.state,
        "groupEpoch": view.epoch,
        "targetAssignmentEpoch": view.target_epoch,
        "members": len(view.members),
    }
    return [row]


def shown(value: object) -> str:
    """Return a cell of Kafka's tables."""
    return "-" if value is None else str(value)


def width(rows: list[Row], key: str) -> int:
    """Return how wide a column is that grows with what is in it."""
    return max([COLUMN, *(len(shown(row[key])) for row in rows)])


def print_offsets(view: GroupDescription, rows: list[Row], *, verbose: bool) -> None:
    """Print Kafka's table of offsets; nothing where there are none."""
    if not rows:
        return
    group, topic, consumer, host = (width(rows, key) for key in ("group", "topic", "consumerId", "host"))
    columns = {"GROUP": (group, "group"), "TOPIC": (topic, "topic"), "PARTITION": (10, "partition")}
    if verbose:
        columns["LEADER-EPOCH"] = (COLUMN, "leaderEpoch")
    columns |= {
        "CURRENT-OFFSET": (COLUMN, "currentOffset"),
        "LOG-END-OFFSET": (COLUMN, "logEndOffset"),
        "LAG": (COLUMN, "lag"),
        "CONSUMER-ID": (consumer, "consumerId"),
        "HOST": (host, "host"),
        "CLIENT-ID": (0, "clientId"),
    }
    print_columns(columns, rows)


def print_members(view: GroupDescription, rows: list[Row], *, verbose: bool) -> None:
    """Print Kafka's table of members, also where there are none; the last column is padded as in Kafka's."""
    group, consumer, host, client = (width(rows, key) for key in ("group", "consumerId", "host", "clientId"))
    columns = {"GROUP": (group, "group"), "CONSUMER-ID": (consumer, "consumerId")}
    if any(row["groupInstanceId"] is not None for row in rows):
        columns["GROUP-INSTANCE-ID"] = (max(17, width(rows, "groupInstanceId")), "groupInstanceId")
    columns |= {"HOST": (host, "host"), "CLIENT-ID": (client, "clientId"), "#PARTITIONS": (COLUMN, "partitions")}
    if verbose:
        rows = [{**row, **{key: row[key] or "-" for key in ("currentAssignment", "targetAssignment")}} for row in rows]
        columns |= {
            "CURRENT-EPOCH": (COLUMN, "currentEpoch"),
            "CURRENT-ASSIGNMENT": (max(20, width(rows, "currentAssignment")), "currentAssignment"),
            "TARGET-EPOCH": (COLUMN, "targetEpoch"),
            "TARGET-ASSIGNMENT": (max(20, width(rows, "targetAssignment")), "targetAssignment"),
        }
    print_columns(columns, rows, end="" if verbose else " ")


def print_state(view: GroupDescription, rows: list[Row], *, verbose: bool) -> None:
    """Print Kafka's table of one state."""
    (row,) = rows
    row = {**row, "coordinator": f"{row['coordinator']}  ({row['coordinatorId']})"}
    columns = {
        "GROUP": (width(rows, "group"), "group"),
        "COORDINATOR (ID)": (max(25, len(row["coordinator"])), "coordinator"),
        "ASSIGNMENT-STRATEGY": (20, "assignmentStrategy"),
        "STATE": (20, "state"),
    }
    if verbose:
        columns |= {"GROUP-EPOCH": (COLUMN, "groupEpoch"), "TARGET-ASSIGNMENT-EPOCH": (25, "targetAssignmentEpoch")}
    print_columns({**columns, "#MEMBERS": (0, "members")}, [row])


def print_columns(columns: dict[str, tuple[int, str]], rows: list[Row], *, end: str = "") -> None:
    """Print a table as `printf` with these widths does, after an empty line."""
    print()
    print(" ".join(head.ljust(size) for head, (size, _) in columns.items()) + end)
    for row in rows:
        print(" ".join(shown(row[key]).ljust(size) for size, key in columns.values()) + end)


def answer(kind: str, rows: list[Row]) -> Answer:
    """Return the rows for every form but Kafka's own."""
    columns = {
        "offsets": {
            "GROUP": "group",
            "TOPIC": "topic",
            "PARTITION": "partition",
            "CURRENT-OFFSET": "currentOffset",
            "LOG-END-OFFSET": "logEndOffset",
            "LAG": "lag",
            "CLIENT-ID": "clientId",
        },
        "members": {"GROUP": "group", "CONSUMER-ID": "consumerId", "HOST": "host", "PARTITIONS": "partitions"},
        "state": {"GROUP": "group", "COORDINATOR": "coordinator", "STATE": "state", "MEMBERS": "members"},
    }[kind]
    wide = {
        "offsets": {"CONSUMER-ID": "consumerId", "HOST": "host", "LEADER-EPOCH": "leaderEpoch"},
        "members": {
            "CLIENT-ID": "clientId",
            "GROUP-INSTANCE-ID": "groupInstanceId",
            "CURRENT-EPOCH": "currentEpoch",
            "CURRENT-ASSIGNMENT": "currentAssignment",
            "TARGET-EPOCH": "targetEpoch",
            "TARGET-ASSIGNMENT": "targetAssignment",
        },
        "state": {
            "COORDINATOR-ID": "coordinatorId",
            "ASSIGNMENT-STRATEGY": "assignmentStrategy",
            "GROUP-EPOCH": "groupEpoch",
            "TARGET-ASSIGNMENT-EPOCH": "targetAssignmentEpoch",
        },
    }[kind]
    return Answer(rows, columns, wide)


ROWS = {"offsets": offset_rows, "members": member_rows, "state": state_rows}
TEXTS = {"offsets": print_offsets, "members": print_members, "state": print_state}
