"""Transactions that nobody ends: aborted in one partition (KIP-664), or by fencing whoever has the transactional id."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, command, number, text
from ottla.admin.errors import AdminError
from ottla.admin.transactions import abort_transaction, describe_transaction, plan_abort, terminate_transaction
from ottla.base import TopicPartition

__all__ = ["TRANSACTIONS"]


def _abort(reach: Reach, arguments: Arguments) -> ActionPlan:
    topic, index, start = text(arguments, "topic"), number(arguments, "partition"), number(arguments, "start_offset")
    if index is None or start is None:
        raise AdminError("partition and start_offset are needed")
    partition = TopicPartition(topic, index)
    abort = plan_abort(reach.client, partition, start)
    words = ("transactions", "abort", "--topic", topic, "--partition", str(index), "--start-offset", str(start))
    return ActionPlan(
        "abort-transaction",
        dict(arguments),
        (Difference(f"{partition}/transaction from {start} of producer {abort.producer_id}", "open", "aborted"),),
        command(*words),
        effects=(
            "Its records in this partition are never seen by who reads committed records.",
            "Readers that wait at it go on.",
        ),
        warnings=("Do this only where no producer and no coordinator will end it any more.",),
        typed=str(partition),
        run=lambda each: abort_transaction(each.client, abort),
    )


def _terminate(reach: Reach, arguments: Arguments) -> ActionPlan:
    name = text(arguments, "transactional_id")
    found = describe_transaction(reach.client, name)
    open_in = ", ".join(map(str, found.partitions[:5])) or "no partition"
    return ActionPlan(
        "terminate-transaction",
        dict(arguments),
        (Difference(f"transactional id {name}/epoch", found.producer_epoch, "higher: its producer is fenced"),),
        command("transactions", "forceTerminateTransaction", "--transactionalId", name),
        effects=(f"What it has open is aborted ({found.state}: {open_in}).",),
        warnings=("A producer that still runs with this id fails at its next call.",),
        typed=name,
        run=lambda each: terminate_transaction(each.client, name),
    )


TRANSACTIONS: Mapping[str, Planner] = {"abort-transaction": _abort, "terminate-transaction": _terminate}
