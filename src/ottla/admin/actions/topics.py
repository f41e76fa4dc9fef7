"""Topics: created, deleted, emptied, given more partitions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.admin.actions.plan import (
    ActionPlan,
    Arguments,
    Difference,
    Planner,
    Reach,
    command,
    number,
    offsets_of,
    pinned,
    settings,
    text,
)
from ottla.admin.errors import AdminError
from ottla.admin.group_offsets import partitions_in_scope
from ottla.admin.topics import (
    TopicDescription,
    TopicToCreate,
    add_partitions,
    create_topic,
    delete_topics,
    describe_topics,
)
from ottla.base import ErrorCode, KafkaError, Offset

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["TOPICS"]


def _described(client: BlockingClient, topic: str) -> TopicDescription:
    for found in describe_topics(client, [topic]):
        return found
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}")


def _create_topic(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    name, configs = text(arguments, "topic"), settings(arguments, "configs")
    partitions, copies = number(arguments, "partitions"), number(arguments, "replication_factor")
    topic = TopicToCreate(name, partitions, copies, configs=configs)
    create_topic(client, topic, validate_only=True)
    words = ["topics", "--create", "--topic", name]
    words += [] if partitions is None else ["--partitions", str(partitions)]
    words += [] if copies is None else ["--replication-factor", str(copies)]
    for key, value in configs.items():
        words += ["--config", f"{key}={value}"]
    said = {"partitions": partitions or "the brokers' default", "replication factor": copies or "the brokers' default"}
    return ActionPlan(
        "create-topic",
        dict(arguments),
        (
            *(Difference(f"topic {name}/{key}", None, value) for key, value in said.items()),
            *(Difference(f"topic {name}/{key}", None, value) for key, value in configs.items()),
        ),
        command(*words),
        effects=(f"Topic {name} is there, empty.",),
        run=lambda each: create_topic(each.client, topic),
    )


def _delete_topic(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    name = text(arguments, "topic")
    found = _described(client, name)

    def run(each: Reach) -> None:
        if error := delete_topics(each.client, [name])[name]:
            raise error

    return ActionPlan(
        "delete-topic",
        dict(arguments),
        (Difference(f"topic {name}/partitions", len(found.partitions), None),),
        command("topics", "--delete", "--topic", name),
        effects=(
            "All of its records are deleted, on every broker.",
            "Offsets that groups have committed for it go too.",
        ),
        warnings=("Clients that go on writing may make it anew, where auto.create.topics.enable is on.",),
        typed=name,
        run=run,
    )


def _add_partitions(reach: Reach, arguments: Arguments) -> ActionPlan:
    client = reach.client
    name, count = text(arguments, "topic"), number(arguments, "partitions")
    found = _described(client, name)
    if count is None or count <= len(found.partitions):
        raise AdminError(f"{name} has {len(found.partitions)} partitions: it can only get more")
    return ActionPlan(
        "add-partitions",
        dict(arguments),
        (Difference(f"topic {name}/partitions", len(found.partitions), count),),
        command("topics", "--alter", "--topic", name, "--partitions", str(count)),
        effects=("Records with keys go to other partitions than before: the order by key breaks at this moment.",),
        warnings=("Partitions cannot be taken away again.",),
        typed=name,
        run=lambda each: add_partitions(each.client, [name], count=count),
    )


def _empty_topic(reach: Reach, arguments: Arguments) -> ActionPlan:
    from ottla.client import EARLIEST, LATEST
    from ottla.client import delete_records as delete_records_request

    client = reach.client
    name = text(arguments, "topic")
    partitions = partitions_in_scope(client, {name: None})
    starts = client.list_offsets(dict.fromkeys(partitions, EARLIEST))
    before = offsets_of(arguments, name)
    if before is None:
        ends = client.list_offsets(dict.fromkeys(partitions, LATEST))
        before = {each: Offset(ends[each].offset) for each in partitions if ends[each].offset > starts[each].offset}
    if not before:
        raise AdminError(f"{name} is empty")

    def run(each: Reach) -> None:
        for done in each.client.run(delete_records_request(each.client.client, before)).values():
            if done.error:
                raise KafkaError(done.error, done.error.name)

    rows = [{"topic": each.topic, "partition": each.partition, "offset": offset} for each, offset in before.items()]
    return ActionPlan(
        "empty-topic",
        dict(arguments),
        tuple(
            Difference(f"{each}/first offset", int(starts[each].offset), int(offset)) for each, offset in before.items()
        ),
        f"echo {shlex.quote(json.dumps({'version': 1, 'partitions': rows}))} > offsets.json; "
        + command("delete-records", "--offset-json-file", "offsets.json"),
        effects=("The records before these offsets are deleted; offsets go on from there.",),
        typed=name,
        pinned=pinned(arguments, before),
        run=run,
    )


TOPICS: Mapping[str, Planner] = {
    "create-topic": _create_topic,
    "delete-topic": _delete_topic,
    "add-partitions": _add_partitions,
    "empty-topic": _empty_topic,
}
