"""`ottla metadata-quorum`: who votes and how far they are, with the flags and texts of `kafka-metadata-quorum`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from ottla.admin import describe_quorum
from ottla.base import ZERO_UUID, ErrorCode, KafkaError, OttlaError, Uuid, uuid_text
from ottla.cli.actions import parse_action
from ottla.cli.endpoints import asks_controllers, controller_option, open_either
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import Options, UsageError, output_option
from ottla.cli.output import Answer, print_answer
from ottla.cli.quorum_voters import (
    add_controller,
    add_options,
    check_add,
    checked_removal,
    remove_controller,
    remove_options,
)
from ottla.cli.watch import watch_option, watched

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from ottla.client import BlockingClient

__all__ = ["main", "parsers"]

HEADS = {
    "NodeId": "nodeId",
    "DirectoryId": "directoryId",
    "LogEndOffset": "logEndOffset",
    "Lag": "lag",
    "LastFetchTimestamp": "lastFetchTimestamp",
    "LastCaughtUpTimestamp": "lastCaughtUpTimestamp",
    "Status": "status",
}
"""Kafka's columns of `--replication`, and the same in JSON."""


def main(argv: list[str]) -> int:
    """Run one action; a failure of the cluster's is one line on standard error."""
    action, args = parse_action("metadata-quorum", {each.prog.split()[-1]: each for each in parsers()}, argv)
    check(action, args)
    try:
        with open_either(args) as client:
            match action:
                case "add-controller":
                    add_controller(client, args)
                case "remove-controller":
                    remove_controller(client, args)
                case _:
                    watched(args, lambda: (status if args.status else replication)(client, args))
    except OttlaError as error:
        if action != "describe":
            print(
                exception_text(error.code, error.message) if isinstance(error, KafkaError) else error, file=sys.stderr
            )
            return 1
        print(f"ottla metadata-quorum: {error}", file=sys.stderr)
        return 1
    return 0


def parsers() -> list[Options]:
    """Return the actions' parsers."""
    parser = _parser("describe", "Describe the quorum that keeps the cluster's metadata.")
    parser.add_argument("--status", action="store_true", help="the leader, the high watermark, voters and observers")
    parser.add_argument("--replication", action="store_true", help="how far each voter and observer is")
    parser.add_argument("--human-readable", action="store_true", help="with --replication: times as how long ago")
    output_option(parser)
    watch_option(parser)
    add = _parser("add-controller", "Let the controller vote whose configuration is the file of --command-config.")
    add_options(add)
    remove = _parser("remove-controller", "Let a controller vote no more.")
    remove_options(remove)
    return [parser, add, remove]


def _parser(action: str, description: str) -> Options:
    parser = Options(f"metadata-quorum {action}", description)
    parser.connection()
    controller_option(parser)
    return parser


def check(action: str, args: Namespace) -> None:
    """Raise UsageError for options that are missing or do not go together."""
    asks_controllers(args)
    if action == "add-controller":
        check_add(args)
        return
    if action == "remove-controller":
        checked_removal(args)
        return
    problem = None
    if args.status and args.replication:
        problem = "Only one of --status or --replication should be specified with describe sub-command"
    elif args.human_readable and not args.replication:
        problem = "The option --human-readable is only supported along with --replication"
    elif not (args.status or args.replication):
        problem = "One of --status or --replication must be specified with describe sub-command"
    if problem is not None:
        raise UsageError(problem)


def status(client: BlockingClient, args: Namespace) -> None:
    """Print the quorum's state."""
    quorum, response = describe_quorum(client)
    endpoints = {
        node.node_id: [f"{each.name}://{each.host}:{each.port}" for each in node.listeners] for node in response.nodes
    }
    leader = next((each for each in quorum.current_voters if each.replica_id == quorum.leader_id), None)
    slowest = min(quorum.current_voters, key=lambda each: int(each.log_end_offset), default=None)
    row = {
        "clusterId": cluster_id(client),
        "leaderId": quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "maxFollowerLag": leader.log_end_offset - slowest.log_end_offset if leader and slowest else -1,
        "maxFollowerLagTimeMs": lag_ms(leader, slowest),
        "currentVoters": [node(each, endpoints) for each in quorum.current_voters],
        "currentObservers": [node(each, {}) for each in quorum.observers],
    }
    if args.output != "text":
        columns = {"LEADER": "leaderId", "EPOCH": "leaderEpoch", "HIGH-WATERMARK": "highWatermark"}
        columns["MAX-FOLLOWER-LAG"] = "maxFollowerLag"
        print_answer(args.output, Answer([row], columns, {"CLUSTER-ID": "clusterId"}, document=row))
        return
    for key, value in row.items():
        text = json.dumps(value) if isinstance(value, list) else str(value)
        print(f"{key[0].upper()}{key[1:]}:".ljust(24) + text)


def cluster_id(client: BlockingClient) -> str:
    """Return the cluster's id, as brokers and controllers both say it."""
    from ottla.cli.commands.cluster import BROKERS, CONTROLLERS
    from ottla.wire import ApiKey
    from ottla.wire.messages.describe_cluster import DescribeClusterRequest

    of_brokers = ApiKey.METADATA in client.run(client.client.versions())
    kind = BROKERS if of_brokers else CONTROLLERS
    found: str = client.request(DescribeClusterRequest(endpoint_type=kind), lowest=1).cluster_id
    return found


def lag_ms(leader: Any, slowest: Any) -> int:
    """Return how long ago the slowest voter had everything; -1 where that is not known."""
    if leader is None or slowest is None:
        return -1
    if leader.replica_id == slowest.replica_id:
        return 0
    if leader.last_caught_up_timestamp < 0 or slowest.last_caught_up_timestamp < 0:
        return -1
    return int(leader.last_caught_up_timestamp - slowest.last_caught_up_timestamp)


def node(state: Any, endpoints: dict[int, list[str]]) -> dict[str, Any]:
    """Return one voter or observer as Kafka's tool lists it."""
    found: dict[str, Any] = {"id": state.replica_id}
    if Uuid(bytes(state.replica_directory_id)) != ZERO_UUID:
        found["directoryId"] = uuid_text(Uuid(bytes(state.replica_directory_id)))
    if endpoints.get(state.replica_id):
        found["endpoints"] = endpoints[state.replica_id]
    return found


def replication(client: BlockingClient, args: Namespace) -> None:
    """Print a row for the leader, the other voters, and the observers."""
    quorum, _ = describe_quorum(client)
    leader = next((each for each in quorum.current_voters if each.replica_id == quorum.leader_id), None)
    if leader is None:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "the quorum has no leader among its voters")
    followers = [each for each in quorum.current_voters if each is not leader]
    states = [(leader, "Leader"), *((f, "Follower") for f in followers), *((o, "Observer") for o in quorum.observers)]
    rows = [
        {
            "nodeId": each.replica_id,
            "directoryId": uuid_text(Uuid(bytes(each.replica_directory_id))),
            "logEndOffset": each.log_end_offset,
            "lag": leader.log_end_offset - each.log_end_offset,
            "lastFetchTimestamp": each.last_fetch_timestamp,
            "lastCaughtUpTimestamp": each.last_caught_up_timestamp,
            "status": word,
        }
        for each, word in states
    ]
    if args.human_readable:
        rows = [{**row, **{key: ago(row[key]) for key in row if key.endswith("Timestamp")}} for row in rows]
    if args.output != "text":
        columns = {key: HEADS[key] for key in ("NodeId", "LogEndOffset", "Lag", "Status")}
        wide = {key: HEADS[key] for key in ("DirectoryId", "LastFetchTimestamp", "LastCaughtUpTimestamp")}
        print_answer(args.output, Answer(rows, {k.upper(): v for k, v in columns.items()}, wide))
        return
    print_tabbed([[*HEADS], *([str(row[key]) for key in HEADS.values()] for row in rows)])


def ago(timestamp: Any) -> str:
    """Return how long ago a time was; -1 is not known."""
    from ottla.cli.records.positions import now_ms

    return "unknown" if int(timestamp) < 0 else f"{now_ms() - int(timestamp)} ms ago"


def print_tabbed(lines: Sequence[Sequence[str]]) -> None:
    """Print padded columns with a tab after each, as Kafka's tool does."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("".join(f"{cell.ljust(width)}\t" for cell, width in zip(line, widths, strict=True)))
