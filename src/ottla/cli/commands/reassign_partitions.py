"""`ottla reassign-partitions`: move partitions between brokers and disks, with the flags and texts of Kafka's tool."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.admin import (
    LogDirMoveError,
    LogDirTimeoutError,
    PlannedReassignment,
    ReassignmentInProgressError,
    ReassignmentPlan,
    ReassignmentRefusedError,
    ThrottleChange,
    TopicPartitionReplica,
    alter_reassignments,
    apply_throttles,
    duplicates,
    invalid_request,
    list_reassignments,
    move_log_dirs,
    plan_broker_throttles,
    plan_disk_throttles,
    plan_reassignment,
    plan_throttle_removal,
    propose_reassignment,
    reassignment_states,
    replica_assignments,
    replica_log_dirs,
    replica_moves,
)
from ottla.admin import broker_ids as living_brokers
from ottla.base import ErrorCode, KafkaError, NodeId, OttlaError, TopicPartition
from ottla.cli.endpoints import controller_option, open_either
from ottla.cli.json_files import file_text
from ottla.cli.kafka_errors import exception_text
from ottla.cli.options import Options, UsageError, check_required, output_option, warn, whole_number
from ottla.cli.output import Answer, print_answer
from ottla.cli.reassignment_files import parse_plan, parse_topics, plan_json
from ottla.cli.reassignment_texts import log_dir_text, ongoing_text, state_text

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["main"]

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
PLAN = "reassignment-json-file"
REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": (PLAN,),
    "verify": (PLAN,),
    "cancel": (PLAN,),
    "list": (),
}
PERMITTED = {
    "generate": ("disable-rack-aware",),
    "execute": (
        *("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
        "disallow-replication-factor-change",
    ),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout", "bootstrap-controller"),
    "list": ("bootstrap-controller",),
}
"""Which options go with an action, besides those that it needs."""
BUSY = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
TIMEOUT_MS_DEFAULT = 10_000
COLUMNS = {"TOPIC": "topic", "PARTITION": "partition", "REPLICAS": "replicas"}


class TerseError(OttlaError):
    """What Kafka's tool prints as it is."""


def main(argv: list[str]) -> int:
    """Run one action; a failure is a line on standard output, as Kafka's tool prints it."""
    if not argv:
        raise UsageError("This tool helps to move topic partitions between replicas.")
    args = options().parse(argv)
    action = check(args)
    out = sys.stdout if args.output == "text" else sys.stderr
    try:
        deed = {"generate": generate, "execute": execute, "verify": verify, "cancel": cancel, "list": list_}[action]
        with open_either(args) as client:
            deed(client, args)
    except (TerseError, LogDirTimeoutError) as error:
        print(error, file=out)
        return 1
    except LogDirMoveError as error:
        print(f"Error: {error}", file=out)
        print(exception_text(error.code), file=sys.stderr)
        return 1
    except KafkaError as error:
        own = error.code is ErrorCode.INVALID_REQUEST
        print(f"Error: {error.message if own else exception_text(error.code, error.message)}", file=out)
        return 1
    except OttlaError as error:
        print(f"Error: {error}", file=out)
        return 1
    return 0


def options() -> Options:
    """Return the parser."""
    parser = Options("reassign-partitions", "Move partitions between brokers, and between their disks.")
    parser.connection()
    controller_option(parser)
    for name, meaning in (
        ("generate", "propose a plan that spreads topics over brokers, and print what is now"),
        ("execute", "begin what the plan says"),
        ("verify", "say how far the plan is, and drop the throttles once nothing moves any more"),
        ("cancel", "undo what the plan began and what has not ended"),
        ("list", "print every reassignment under way"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=meaning)
    parser.add_argument(
        "--reassignment-json-file",
        metavar="FILE",
        help='the plan: {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","/d"]}]}; '
        "log_dirs may be left out",
    )
    parser.add_argument(
        "--topics-to-move-json-file", metavar="FILE", help='with --generate: {"version":1,"topics":[{"topic":"t"}]}'
    )
    parser.add_argument("--broker-list", metavar="1,2,3", help="with --generate: the brokers to spread over")
    parser.add_argument("--disable-rack-aware", action="store_true", help="with --generate: look at no racks")
    parser.add_argument("--additional", action="store_true", help="also while others are under way; changes throttles")
    parser.add_argument(
        "--disallow-replication-factor-change", action="store_true", help="refuse a plan with more or fewer copies"
    )
    parser.add_argument("--throttle", type=whole_number, metavar="BYTES/S", help="how fast to copy between brokers")
    parser.add_argument(
        "--replica-alter-log-dirs-throttle", type=whole_number, metavar="BYTES/S", help="how fast to copy between disks"
    )
    parser.add_argument("--timeout", type=whole_number, metavar="MS", help="for moves between disks to begin (10000)")
    parser.add_argument("--preserve-throttles", action="store_true", help="leave throttles as they are")
    output_option(parser)
    return parser


def check(args: Namespace) -> str:
    """Return the action; raises UsageError for options that are missing or do not go with it."""
    found = [name for name in ACTIONS if getattr(args, name)]
    if len(found) != 1:
        raise UsageError("Command must include exactly one action: " + ", ".join(f"--{name}" for name in ACTIONS))
    (action,) = found
    if args.bootstrap_server is not None and args.bootstrap_controller is not None:
        raise UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    check_required(args, *REQUIRED[action])
    every = dict.fromkeys(name for names in (*REQUIRED.values(), *PERMITTED.values()) for name in names)
    for name in every:
        given = getattr(args, name.replace("-", "_")) not in (None, False)
        if given and name not in (*REQUIRED[action], *PERMITTED[action]):
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


# -- generate


def generate(client: BlockingClient, args: Namespace) -> None:
    """Print the plan that would bring back what is now, and one that spreads topics over some brokers."""
    wanted = broker_ids(args.broker_list)
    current = replica_assignments(client, parse_topics(file_text(args.topics_to_move_json_file)))
    nodes = client.metadata(()).nodes
    brokers = [nodes[NodeId(each)] for each in wanted if each in nodes]
    try:
        plan = propose_reassignment(current, brokers, rack_aware=not args.disable_rack_aware) if current else {}
    except KafkaError as error:
        raise invalid_request(error.message) from None
    now = plan_json(current, lying(client, current))
    if args.output == "text":
        print(f"Current partition replica assignment\n{now}\n")
        print(f"Proposed partition reassignment configuration\n{plan_json(plan, {})}")
        return
    import json

    rows = [{**each._asdict(), "replicas": current[each], "proposed": plan[each]} for each in sorted(plan)]
    document = {"current": json.loads(now), "proposed": json.loads(plan_json(plan, {}))}
    print_answer(args.output, Answer(rows, {**COLUMNS, "PROPOSED": "proposed"}, document=document))


def broker_ids(text: str) -> list[int]:
    """Parse `--broker-list`; raises KafkaError for what is no number, or named twice."""
    found = []
    for part in text.split(","):
        try:
            found.append(int(part))
        except ValueError:
            raise invalid_request(f'For input string: "{part}"') from None
    if twice := duplicates(found):
        raise invalid_request(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return found


def lying(
    client: BlockingClient, assignment: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartitionReplica, str]:
    """Return the folder of each replica that lies somewhere."""
    replicas = [
        TopicPartitionReplica(broker, *partition) for partition, brokers in assignment.items() for broker in brokers
    ]
    return {
        each: found.current for each, found in replica_log_dirs(client, replicas).items() if found.current is not None
    }


# -- execute


def execute(client: BlockingClient, args: Namespace) -> None:
    """Begin what the plan says: throttles first, then partitions, then moves between disks."""
    plan = parse_plan(file_text(args.reassignment_json_file))
    try:
        planned = plan_reassignment(client, plan, additional=args.additional)
    except ReassignmentInProgressError:
        raise TerseError(BUSY) from None
    say(args, "Current partition replica assignment\n")
    say(args, plan_json(planned.current, lying(client, planned.current)))
    say(args, "\nSave this to use as the --reassignment-json-file option during rollback")
    throttle(client, args, planned)
    try:
        alter_reassignments(client, plan.replicas, allow_factor_change=not args.disallow_replication_factor_change)
    except ReassignmentRefusedError as error:
        raise TerseError("\n".join(["Error reassigning partition(s):", *refusals(error)])) from None
    started = sorted(plan.replicas)
    plural = "" if len(started) == 1 else "s"
    say(args, f"Successfully started partition reassignment{plural} for {','.join(map(str, started))}")
    if plan.log_dirs:
        tell_log_dir_moves(client, args, plan.log_dirs)
    if args.output != "text":
        rows = [{**each._asdict(), "replicas": plan.replicas[each], "status": "started"} for each in started]
        print_answer(args.output, Answer(rows, {**COLUMNS, "STATUS": "status"}))


def say(args: Namespace, line: str) -> None:
    """Print a line of Kafka's tool where that is what was asked for."""
    if args.output == "text":
        print(line)


def throttle(client: BlockingClient, args: Namespace, planned: PlannedReassignment) -> None:
    """Set the throttles that were asked for."""
    between_brokers = -1 if args.throttle is None else args.throttle
    between_disks = -1 if args.replica_alter_log_dirs_throttle is None else args.replica_alter_log_dirs_throttle
    if between_brokers >= 0 or between_disks >= 0:
        say(args, VERIFY_LATER)
    if between_brokers >= 0:
        moves = replica_moves(planned.under_way, planned.plan.replicas, planned.current)
        change_throttles(client, plan_broker_throttles(client, moves, bytes_per_s=between_brokers))
        say(args, f"The inter-broker throttle limit was set to {between_brokers} B/s")
    if between_disks >= 0:
        brokers = {replica.broker for replica in planned.plan.log_dirs}
        change_throttles(client, plan_disk_throttles(client, brokers, bytes_per_s=between_disks))
        say(args, f"The replica-alter-dir throttle limit was set to {between_disks} B/s")


def change_throttles(client: BlockingClient, plan: ThrottleChange) -> None:
    """Set or drop throttles, and name the brokers that are away."""
    for broker in plan.away:
        warn(f"Broker {broker} is away, and keeps the throttle that it has.")
    apply_throttles(client, plan)


def refusals(error: ReassignmentRefusedError) -> list[str]:
    """Return a line for each partition that the controller refused."""
    return [f"{partition}: {reason}" for partition, reason in error.refused.items()]


def tell_log_dir_moves(client: BlockingClient, args: Namespace, targets: Mapping[TopicPartitionReplica, str]) -> None:
    """Have replicas moved to folders of their brokers, and wait for those that come to their broker just now."""
    timeout_ms = TIMEOUT_MS_DEFAULT if args.timeout is None else args.timeout
    for replica in move_log_dirs(client, targets, timeout_s=timeout_ms / 1000):
        path, name = targets[replica], f"{replica.topic}-{replica.partition}"
        say(
            args,
            f"Successfully started moving log directory to {path} for replica {name} with broker {replica.broker} ",
        )


# -- verify, cancel, list


def verify(client: BlockingClient, args: Namespace) -> None:
    """Say how far the plan is; drop every throttle once nothing moves any more."""
    plan = parse_plan(file_text(args.reassignment_json_file))
    under_way = list_reassignments(client)
    states = reassignment_states(client, plan.replicas, under_way)
    say(args, "Status of partition reassignment:")
    for partition, state in states.items():
        say(args, state_text(state, partition))
    moving = replica_log_dirs(client, plan.log_dirs)
    say(args, "\n".join(log_dir_text(each, replica, plan.log_dirs[replica]) for replica, each in moving.items()))
    if args.output != "text":
        rows = [
            {**partition._asdict(), "replicas": state.current, "target": state.target, "status": state.word}
            for partition, state in states.items()
        ]
        print_answer(args.output, Answer(rows, {**COLUMNS, "TARGET": "target", "STATUS": "status"}))
    if not under_way and all(each.future is None for each in moving.values()) and not args.preserve_throttles:
        clear_throttles(client, args, plan)


def clear_throttles(client: BlockingClient, args: Namespace, plan: ReassignmentPlan) -> None:
    """Drop the throttles of all brokers, since any may have been a source, and of the plan's topics."""
    brokers = {*living_brokers(client), *(each for replicas in plan.replicas.values() for each in replicas)}
    say(args, f"Clearing broker-level throttles on broker{_plural(brokers)} {','.join(map(str, sorted(brokers)))}")
    change_throttles(client, plan_throttle_removal(client, brokers=brokers))
    topics = sorted({partition.topic for partition in plan.replicas})
    say(args, f"Clearing topic-level throttles on topic{_plural(topics)} {','.join(topics)}")
    change_throttles(client, plan_throttle_removal(client, topics=topics))


def _plural(found: Collection[object]) -> str:
    return "" if len(found) == 1 else "s"


def cancel(client: BlockingClient, args: Namespace) -> None:
    """Undo what the plan began and what is still under way, between brokers and between disks."""
    plan = parse_plan(file_text(args.reassignment_json_file))
    under_way = [partition for partition in list_reassignments(client, plan.replicas) if partition in plan.replicas]
    if under_way:
        try:
            alter_reassignments(client, dict.fromkeys(under_way))
        except ReassignmentRefusedError as error:
            head = f"Error cancelling partition reassignment{_plural(error.refused)} for:"
            raise TerseError("\n".join([head, *refusals(error)])) from None
        listed = ",".join(map(str, under_way))
        say(args, f"Successfully cancelled partition reassignment{_plural(under_way)} for: {listed}")
    else:
        say(args, "None of the specified partition reassignments are active.")
    moving = replica_log_dirs(client, plan.log_dirs)
    back = {replica: each.current for replica, each in moving.items() if each.future and each.current}
    if back:
        tell_log_dir_moves(client, args, back)
    elif args.output == "text":
        print("None of the specified partition moves are active.", end="")
    if not args.preserve_throttles:
        clear_throttles(client, args, plan)
    if args.output != "text":
        rows = [{**each._asdict(), "replicas": None, "status": "cancelled"} for each in under_way]
        print_answer(args.output, Answer(rows, {**COLUMNS, "STATUS": "status"}))


def list_(client: BlockingClient, args: Namespace) -> None:
    """Print the reassignments under way."""
    found = list_reassignments(client)
    if args.output != "text":
        rows = [
            {**partition._asdict(), "replicas": each.replicas, "adding": each.adding, "removing": each.removing}
            for partition, each in found.items()
        ]
        print_answer(args.output, Answer(rows, {**COLUMNS, "ADDING": "adding", "REMOVING": "removing"}))
    elif not found:
        print("No partition reassignments found.")
    else:
        print("Current partition reassignments:")
        for partition, each in found.items():
            print(ongoing_text(each, partition))
