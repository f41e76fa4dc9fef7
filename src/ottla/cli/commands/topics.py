"""`ottla topics`: create, list, describe, alter and delete topics, with the flags and texts of `kafka-topics`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from ottla.admin import TopicToCreate, add_partitions, create_topic, delete_topics
from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.cli.confirmation import confirmed, destruction_options
from ottla.cli.options import (
    Options,
    UsageError,
    check_invalid,
    check_required,
    open_client,
    output_option,
    properties_file,
    warn,
    whole_number,
)
from ottla.cli.output import Answer, print_answer
from ottla.cli.topic_names import existing, matching
from ottla.cli.watch import watch_option, watched

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient, Cluster

__all__ = ["main"]

ACTIONS = ("list", "describe", "create", "alter", "delete")
COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def main(argv: list[str]) -> int:
    """Run one action; a failure of the cluster's is one line on standard output, as Kafka's tool prints it."""
    if not argv:
        raise UsageError("Create, delete, describe, or change a topic.")
    args = options().parse(argv)
    check(args)
    try:
        with open_client(args.bootstrap_server, properties_file(args.command_config)) as client:
            deed = {"list": list_, "describe": describe, "create": create, "alter": alter, "delete": delete}[
                action(args)
            ]
            watched(args, lambda: deed(client, args))
    except OttlaError as error:
        out = sys.stdout if args.output == "text" else sys.stderr
        print(f"Error while executing topic command : {error}", file=out)
        return 1
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options("topics", "Create, list, describe, alter and delete topics.")
    parser.connection()
    for name in ACTIONS:
        parser.add_argument(f"--{name}", action="store_true", help=f"{name} topics")
    parser.add_argument("--topic", metavar="TOPIC", help="the topic; a regular expression except with --create")
    parser.add_argument("--topic-id", metavar="ID", help="the topic to describe, by its id")
    parser.add_argument("--partitions", type=whole_number, metavar="N", help="how many partitions it shall have")
    parser.add_argument("--replication-factor", type=whole_number, metavar="N", help="copies of each partition")
    parser.add_argument("--replica-assignment", metavar="1:2,2:3", help="brokers of each partition, one by one")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="with --create; repeatable")
    parser.add_argument("--delete-config", action="append", default=[], metavar="KEY", help="has no effect since 4.0")
    for name, meaning in (
        ("if-exists", "with --alter, --delete, --describe: a missing topic is no error"),
        ("if-not-exists", "with --create: an existing topic is no error"),
        ("exclude-internal", "leave internal topics out"),
        ("topics-with-overrides", "describe topics that have their own configuration"),
        ("under-replicated-partitions", "describe partitions that lack in-sync copies"),
        ("unavailable-partitions", "describe partitions without a living leader"),
        ("under-min-isr-partitions", "describe partitions with fewer in-sync copies than min.insync.replicas"),
        ("at-min-isr-partitions", "describe partitions with exactly min.insync.replicas in-sync copies"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=meaning)
    parser.add_argument("--partition-size-limit-per-response", type=whole_number, metavar="N", help="with --describe")
    output_option(parser)
    watch_option(parser)
    destruction_options(parser)
    return parser


def action(args: Namespace) -> str:
    """Return the one action that was asked for."""
    found = [name for name in ACTIONS if getattr(args, name)]
    if len(found) != 1:
        raise UsageError("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    return found[0]


def check(args: Namespace) -> None:
    """Raise UsageError for options that are missing or do not go with the action."""
    chosen = action(args)
    if args.bootstrap_server is None:
        raise UsageError("--bootstrap-server must be specified")
    if args.delete_config:
        warn("delete-config option is no longer supported and deprecated since version 4.0.")
    if chosen in ("create", "alter", "delete") and args.topic is None:
        raise UsageError('Missing required argument "[topic]"')
    if chosen == "alter" and args.config:
        raise UsageError(
            'Option combination "[[config], [bootstrap-server]]" can\'t be used with option "[alter]" '
            "(To alter topic configurations, the kafka-configs tool can be used.)"
        )
    if chosen == "alter":
        check_required(args, "partitions")
    others = {name: [each for each in ACTIONS if each != name] for name in ACTIONS}
    check_invalid(args, "config", others["create"])
    check_invalid(args, "partitions", ["list", "describe", "delete"])
    check_invalid(args, "replication-factor", others["create"])
    check_invalid(args, "replica-assignment", ["list", "describe", "delete"])
    if args.create:
        check_invalid(args, "replica-assignment", ["partitions", "replication-factor"])
    for name in (
        *("topics-with-overrides", "under-replicated-partitions", "unavailable-partitions"),
        *("under-min-isr-partitions", "at-min-isr-partitions", "topic-id"),
    ):
        check_invalid(args, name, others["describe"])
    check_invalid(args, "if-exists", ["list", "create"])
    check_invalid(args, "if-not-exists", others["create"])
    check_invalid(args, "exclude-internal", ["create", "alter", "delete"])
    check_invalid(args, "watch", ["create", "alter", "delete"])
    check_invalid(args, "yes", others["delete"])
    check_invalid(args, "dry-run", ["list", "describe", "alter"])


def list_(client: BlockingClient, args: Namespace) -> None:
    """Print topics' names."""
    cluster = client.metadata()
    names = matching(cluster.topics, args.topic, exclude_internal=args.exclude_internal)
    if args.output == "text":
        print("\n".join(names))
        return
    columns = {
        "TOPIC": "topic",
        "PARTITIONS": "partitionCount",
        "REPLICATION": "replicationFactor",
        "INTERNAL": "internal",
    }
    print_answer(args.output, Answer([_summary(cluster, name) for name in names], columns, {"TOPIC-ID": "topicId"}))


def _summary(cluster: Cluster, name: str) -> dict[str, Any]:
    from ottla.base import uuid_text

    topic = cluster.topics[name]
    replicas = [len(partition.replicas) for partition in topic.partitions.values()]
    return {
        "topic": name,
        "topicId": uuid_text(topic.topic_id),
        "partitionCount": len(replicas),
        "replicationFactor": max(replicas, default=0),
        "internal": topic.is_internal,
    }


def describe(client: BlockingClient, args: Namespace) -> None:
    """Print topics and their partitions."""
    from ottla.cli.topic_description import print_topics

    print_topics(client, args)


def create(client: BlockingClient, args: Namespace) -> None:
    """Create one topic."""
    if args.output == "text" and re.search(r"[._]", args.topic):
        print(COLLISION)
    topic = TopicToCreate(
        name=args.topic,
        assignment=parse_assignment(args.replica_assignment),
        partitions=_positive(args.partitions),
        replication_factor=_factor(args.replication_factor),
        configs=_configs(args.config),
    )
    try:
        create_topic(client, topic, validate_only=args.dry_run)
    except KafkaError as error:
        if not (args.if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
            raise
        _report(args, [{"topic": args.topic, "status": "exists"}], [])
        return
    if args.dry_run:
        _report(args, [{"topic": args.topic, "status": "valid"}], [f"would create topic {args.topic}"])
        return
    _report(args, [{"topic": args.topic, "status": "created"}], [f"Created topic {args.topic}."])


def _positive(partitions: int | None) -> int | None:
    if partitions is not None and partitions < 1:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "The partitions must be greater than 0")
    return partitions


def _factor(replication_factor: int | None) -> int | None:
    if replication_factor is not None and not 1 <= replication_factor <= 32767:
        message = "The replication factor must be between 1 and 32767 inclusive"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return replication_factor


def _configs(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            message = 'Invalid topic config: all configs to be added must be in the format "key=val".'
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"requirement failed: {message}")
        found[name.strip()] = value.strip()
    return found


def parse_assignment(text: str | None) -> list[list[int]]:
    """Parse `--replica-assignment`: brokers of partition 0, then of 1, ..., as `1:2,2:3`."""
    if text is None:
        return []
    found: list[list[int]] = []
    for index, part in enumerate(text.split(",")):
        try:
            brokers = [int(each.strip()) for each in part.split(":")]
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f'For input string: "{part}"') from None
        if len(set(brokers)) < len(brokers):
            twice = ",".join(str(each) for each in dict.fromkeys(brokers) if brokers.count(each) > 1)
            message = f"Partition replica lists may not contain duplicate entries: {twice}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        if found and len(brokers) != len(found[0]):
            message = f"Partition {index} has different replication factor: {brokers}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        found.append(brokers)
    return found


def alter(client: BlockingClient, args: Namespace) -> None:
    """Add partitions to topics."""
    names = existing(client, args)
    if not names:
        return
    add_partitions(client, names, count=args.partitions, assignment=parse_assignment(args.replica_assignment))
    _report(args, [{"topic": name, "partitionCount": args.partitions} for name in names], [])


def delete(client: BlockingClient, args: Namespace) -> None:
    """Delete topics."""
    names = existing(client, args)
    if not names or not confirmed(args, "delete topic", names, asked_for=[args.topic]):
        return
    for error in delete_topics(client, names).values():
        if error is not None:
            raise error
    _report(args, [{"topic": name, "status": "deleted"} for name in names], [])


def _report(args: Namespace, rows: list[dict[str, Any]], text: list[str]) -> None:
    """Print what was done; Kafka's tool says nothing of most of it."""
    if args.output == "text":
        for line in text:
            print(line)
    else:
        columns = {re.sub("[A-Z]", r"-\g<0>", key).upper(): key for key in (rows[0] if rows else ["topic"])}
        print_answer(args.output, Answer(rows, columns))
