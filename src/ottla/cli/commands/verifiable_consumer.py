"""`ottla verifiable-consumer`: reads as a group's member and says in JSON what happens, as Kafka's system tests expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError
from ottla.cli.client_properties import declare_client_properties, given_properties
from ottla.cli.commands.verifiable_producer import Stopping
from ottla.cli.options import Options, UsageError, whole_number
from ottla.cli.records.json_events import print_event
from ottla.cli.records.librdkafka import check_names, check_reachable, consumer_settings, make_consumer, taken

if TYPE_CHECKING:
    from argparse import Namespace

    from confluent_kafka import Consumer, Message, TopicPartition

__all__ = ["main"]

NOUN = "verifiable-consumer"
POLL_SECONDS = 0.1
POLL_RECORDS = 500
PROTOCOLS = ("classic", "consumer")
RESETS = ("earliest", "latest", "none")
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"


def main(argv: list[str]) -> int:
    """Read until there was enough, or a signal comes."""
    if not argv:
        options().print_help()
        return 0
    args = options().parse(argv)
    check_names([args.topic])
    properties = properties_of(args)
    check_reachable(properties, timeout_ms=properties.get("default.api.timeout.ms", "60000"), topics=[])
    Verified(args, make_consumer(consumer_settings(properties), NOUN)).run()
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Read as a member of a group, and print a JSON event for all that happens.")
    declare_client_properties(parser, old_config="consumer.config")
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic to read (required)")
    parser.add_argument("--group-id", required=True, metavar="GROUP", help="the consumer group (required)")
    parser.add_argument(
        "--group-protocol", type=str.lower, default="classic", choices=PROTOCOLS, help="classic or consumer"
    )
    parser.add_argument("--group-remote-assignor", metavar="NAME", help="for the protocol `consumer`")
    parser.add_argument("--group-instance-id", metavar="ID", help="a static member of this id")
    parser.add_argument("--max-messages", type=whole_number, default=-1, metavar="N", help="-1: until a signal comes")
    parser.add_argument("--session-timeout", type=whole_number, metavar="MS", help="for the protocol `classic`")
    parser.add_argument("--verbose", action="store_true", help="an event for every record too")
    parser.add_argument("--enable-autocommit", action="store_true", help="let the consumer commit by itself")
    parser.add_argument("--reset-policy", default="earliest", choices=RESETS, help="where no offset is committed")
    parser.add_argument("--assignment-strategy", default=RANGE, metavar="CLASS", help="for the protocol `classic`")
    return parser


def properties_of(args: Namespace) -> dict[str, str]:
    """Return the consumer's settings by Kafka's names; raises UsageError for what the protocol has no use for."""
    found = given_properties(args) | {
        "group.id": args.group_id,
        "group.protocol": args.group_protocol,
        "auto.offset.reset": args.reset_policy,
        "enable.auto.commit": "true" if args.enable_autocommit else "false",
    }
    if args.group_instance_id is not None:
        found["group.instance.id"] = args.group_instance_id
    if args.group_protocol == "consumer":
        if args.session_timeout is not None:
            raise UsageError("--session-timeout goes with --group-protocol classic: the broker sets it for `consumer`")
        if args.group_remote_assignor is not None:
            found["group.remote.assignor"] = args.group_remote_assignor
        return found
    if args.session_timeout is not None:
        found["session.timeout.ms"] = str(args.session_timeout)
    return found | {"partition.assignment.strategy": args.assignment_strategy}


class Verified:
    """One run."""

    def __init__(self, args: Namespace, consumer: Consumer) -> None:
        self._args = args
        self._consumer = consumer
        self._count = 0
        self._at_limit = False

    def run(self) -> None:
        """Read until it is over, and leave the group."""
        stopping = Stopping()
        print_event("startup_complete")
        self._consumer.subscribe(
            [self._args.topic],
            on_assign=lambda _, found: self._rebalanced("partitions_assigned", found),
            on_revoke=lambda _, found: self._rebalanced("partitions_revoked", found),
        )
        try:
            while not self._at_limit and not stopping.asked:
                self._take(taken(self._consumer, POLL_RECORDS, POLL_SECONDS))
        finally:
            if stopping.asked:
                print_event("shutdown_requested")
            self._consumer.close()
            print_event("shutdown_complete")
            if not stopping.asked:
                print_event("shutdown_requested")

    def _rebalanced(self, name: str, found: Sequence[TopicPartition]) -> None:
        print_event(name, partitions=[{"topic": each.topic, "partition": each.partition} for each in found])

    def _take(self, messages: list[Message]) -> None:
        found: dict[tuple[str, int], list[Message]] = {}
        for message in messages:
            if _has_failed(message):
                continue
            if self._count == self._args.max_messages:
                self._at_limit = True
                break
            self._count += 1
            found.setdefault((str(message.topic()), int(message.partition() or 0)), []).append(message)
        self._at_limit = self._at_limit or self._count == self._args.max_messages
        if found:
            self._report(found)
            if not self._args.enable_autocommit:
                self._commit(found)

    def _report(self, found: dict[tuple[str, int], list[Message]]) -> None:
        for (topic, partition), messages in found.items() if self._args.verbose else ():
            for message in messages:
                place = {"topic": topic, "partition": partition, "offset": message.offset()}
                print_event("record_data", key=_text(message.key()), value=_text(message.value()), **place)
        rows = [
            {
                "topic": topic,
                "partition": partition,
                "count": len(messages),
                "minOffset": messages[0].offset(),
                "maxOffset": messages[-1].offset(),
            }
            for (topic, partition), messages in found.items()
        ]
        print_event("records_consumed", count=sum(map(len, found.values())), partitions=rows)

    def _commit(self, found: dict[tuple[str, int], list[Message]]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(*place, (messages[-1].offset() or 0) + 1) for place, messages in found.items()]
        rows = [{"topic": each.topic, "partition": each.partition, "offset": each.offset} for each in offsets]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            print_event("offsets_committed", offsets=rows, success=False, error=error.args[0].str())
            return
        print_event("offsets_committed", offsets=rows, success=True)


def _has_failed(message: Message) -> bool:
    """True for an event that is no record; raises KafkaError for one that does not pass by itself."""
    error: Any = message.error()
    if error is None:
        return False
    if error.retriable() or error.code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return True
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.str())


def _text(data: str | bytes | None) -> str | None:
    return data.decode(errors="replace") if isinstance(data, bytes) else data
