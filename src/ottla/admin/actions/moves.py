"""Where partitions lie: moved to other brokers with a throttle, called off, led by first copies; voters removed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, Undo, command, number, text
from ottla.admin.errors import AdminError
from ottla.admin.quorum import remove_voter
from ottla.admin.reassignments import (
    ReassignmentPlan,
    alter_reassignments,
    list_reassignments,
    plan_reassignment,
    propose_reassignment,
    replica_assignments,
)
from ottla.admin.throttles import apply_throttles, plan_broker_throttles, plan_throttle_removal, replica_moves
from ottla.base import ErrorCode, KafkaError, TopicPartition, parse_uuid

__all__ = ["MOVES"]

TOPICS_MAX = 1000


def _topics(arguments: Arguments) -> list[str]:
    given = arguments.get("topics")
    if not isinstance(given, Sequence) or isinstance(given, str) or not given or len(given) > TOPICS_MAX:
        raise AdminError(f"topics is a list of 1 to {TOPICS_MAX} names")
    return [str(each) for each in given]


def _wanted(reach: Reach, arguments: Arguments) -> dict[TopicPartition, list[int]]:
    """Return where partitions shall lie: as is given, or spread anew over some brokers."""
    given = arguments.get("replicas")
    if given is not None:
        if not isinstance(given, Mapping) or not given:
            raise AdminError("replicas maps partitions, such as orders-0, to lists of brokers")
        return {_partition(name): _brokers(copies) for name, copies in given.items()}
    nodes = reach.client.metadata(()).nodes
    chosen = arguments.get("brokers")
    wanted = sorted(nodes) if chosen is None else _brokers(chosen)
    if missing := sorted(set(wanted) - set(nodes)):
        raise AdminError(f"There is no broker {missing[0]} that is alive")
    current = replica_assignments(reach.client, _topics(arguments))
    chosen_nodes = [each for node, each in nodes.items() if node in wanted]
    placed = propose_reassignment(current, chosen_nodes, rack_aware=all(each.rack for each in chosen_nodes))
    return _least_moved(current, placed, wanted)


def _least_moved(
    current: Mapping[TopicPartition, Sequence[int]], placed: dict[TopicPartition, list[int]], wanted: Sequence[int]
) -> dict[TopicPartition, list[int]]:
    """Leave partitions where they lie on the wanted brokers alone, as long as no broker gets more than its share."""
    allowed, copies = set(wanted), sum(map(len, current.values()))
    share = -(-copies // max(1, len(allowed)))
    held = dict.fromkeys(allowed, 0)
    found: dict[TopicPartition, list[int]] = {}
    for partition, replicas in sorted(current.items()):
        stays = set(replicas) <= allowed and all(held[each] < share for each in replicas)
        if stays:
            found[partition] = list(replicas)
            for each in replicas:
                held[each] += 1
    for partition in sorted(placed.keys() - found.keys()):
        room = sorted(
            allowed, key=lambda each: (held[each], placed[partition].index(each) if each in placed[partition] else 99)
        )
        kept = [each for each in current[partition] if each in allowed and held[each] < share]
        chosen = (kept + [each for each in room if each not in kept])[: len(current[partition])]
        found[partition] = chosen
        for each in chosen:
            held[each] += 1
    return found


def _partition(name: object) -> TopicPartition:
    topic, dash, index = str(name).rpartition("-")
    if not dash or not topic or not index.isdigit():
        raise AdminError(f"a partition is TOPIC-NUMBER, not {name!r}")
    return TopicPartition(topic, int(index))


def _brokers(given: object) -> list[int]:
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(type(each) is int for each in given):
        raise AdminError("brokers are a list of numbers")
    return list(given)


def _reassign(reach: Reach, arguments: Arguments) -> ActionPlan:
    wanted, throttle = _wanted(reach, arguments), number(arguments, "throttle")
    if throttle is not None and throttle <= 0:
        raise AdminError("throttle is bytes a second, above 0")
    planned = plan_reassignment(reach.client, ReassignmentPlan(list(wanted.items())), additional=True)
    moved = {each: copies for each, copies in wanted.items() if list(planned.current[each]) != copies}
    if not moved:
        raise AdminError("Everything lies as it would lie: nothing has to move")
    if busy := sorted(moved.keys() & planned.under_way.keys()):
        raise AdminError(f"{busy[0]} is being moved already: cancel that first")
    new = {each: set(copies) - set(planned.current[each]) for each, copies in moved.items()}
    size, unknown = _bytes_of(reach, [each for each, added in new.items() if added])
    total = sum(size[each] * len(new[each]) for each in size)
    effects = [f"{sum(map(len, new.values())):,} copies of {len(moved):,} partitions are made, {_mib(total)} in all."]
    if throttle:
        into: dict[int, int] = {}
        for each, added in new.items():
            for node in added:
                into[node] = into.get(node, 0) + size.get(each, 0)
        minutes = max(into.values(), default=0) / throttle / 60
        effects.append(
            f"At {_mib(throttle)} a second that takes {minutes:,.0f} minutes at least."
            if minutes >= 1
            else f"At {_mib(throttle)} a second that takes less than a minute."
        )
    moves = replica_moves(planned.under_way, moved, planned.current)
    rows = [
        {"topic": each.topic, "partition": each.partition, "replicas": copies} for each, copies in sorted(moved.items())
    ]
    said = json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))
    words = ["reassign-partitions", "--reassignment-json-file", "moves.json", "--execute"]
    words += ["--throttle", str(throttle)] if throttle else []

    def run(each: Reach) -> None:
        if throttle:
            apply_throttles(each.client, plan_broker_throttles(each.client, moves, bytes_per_s=throttle))
        alter_reassignments(each.client, moved)

    before = {str(each): list(planned.current[each]) for each in moved}
    return ActionPlan(
        "reassign",
        dict(arguments),
        tuple(
            Difference(f"{each}/copies on", _listed(planned.current[each]), _listed(moved[each]))
            for each in sorted(moved)
        ),
        f"echo {shlex.quote(said)} > moves.json; " + command(*words),
        effects=tuple(effects),
        warnings=(
            *((f"The sizes of {unknown} partitions are not known.",) if unknown else ()),
            *(("Without a throttle the copies take all the network that there is.",) if not throttle and total else ()),
            *(("Take the throttle away when all is moved.",) if throttle else ()),
        ),
        undo=Undo("reassign", {"replicas": before, **({"throttle": throttle} if throttle else {})}),
        pinned={"replicas": {str(each): copies for each, copies in wanted.items()}, "throttle": throttle},
        run=run,
    )


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _bytes_of(reach: Reach, partitions: Sequence[TopicPartition]) -> tuple[dict[TopicPartition, int], int]:
    """Return the sizes of partitions' largest copies, and of how many it is not known."""
    from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

    wanted, found = set(partitions), dict[TopicPartition, int]()
    for node in sorted(reach.client.metadata(()).nodes):
        answer = reach.client.request(DescribeLogDirsRequest(topics=None), node=node)
        for folder in answer.results:
            for topic in folder.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    if partition in wanted and not each.is_future_key:
                        found[partition] = max(found.get(partition, 0), each.partition_size)
    return found, len(wanted) - len(found)


def _cancel(reach: Reach, arguments: Arguments) -> ActionPlan:
    given = arguments.get("partitions")
    under_way = list_reassignments(reach.client)
    chosen = sorted(under_way) if given is None else [_partition(each) for each in given]
    if not chosen or any(each not in under_way for each in chosen):
        raise AdminError("Nothing of that is being moved (any more)")
    differences = []
    for each in chosen:
        moving = under_way[each]
        back = [node for node in moving.replicas if node not in moving.adding]
        differences.append(Difference(f"{each}/copies on", _listed(moving.replicas), _listed(back)))
    rows = [
        {"topic": each.topic, "partition": each.partition, "replicas": list(under_way[each].replicas)}
        for each in chosen
    ]
    said = json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))
    words = ("reassign-partitions", "--reassignment-json-file", "moves.json", "--cancel")

    def run(reaching: Reach) -> None:
        alter_reassignments(reaching.client, dict.fromkeys(chosen, None))

    return ActionPlan(
        "cancel-reassignment",
        dict(arguments),
        tuple(differences),
        f"echo {shlex.quote(said)} > moves.json; " + command(*words),
        effects=("What was copied so far is deleted; the copies from before stay.",),
        run=run,
    )


def _remove_throttle(reach: Reach, arguments: Arguments) -> ActionPlan:
    from ottla.admin.configs import ConfigEntity, describe_config

    nodes = sorted(int(each) for each in reach.client.metadata(()).nodes)
    topics = [] if arguments.get("topics") is None else _topics(arguments)
    plan = plan_throttle_removal(reach.client, brokers=nodes, topics=topics)
    differences, words = [], []
    for change in plan.changes:
        entity: ConfigEntity = change.entity
        known = {each.name: each for each in describe_config(reach.client, entity)}
        mine = [name for name in change.deleted if name in known and known[name].is_set_for(entity)]
        differences += [Difference(f"{entity.singular} {entity.name}/{name}", known[name].value, None) for name in mine]
        if mine:
            named = ["--entity-type", entity.type, "--entity-name", str(entity.name)]
            words.append(command("configs", "--alter", *named, "--delete-config", ",".join(mine)))
    if not differences:
        raise AdminError("There is no throttle")
    return ActionPlan(
        "remove-throttle",
        dict(arguments),
        tuple(differences),
        " && ".join(words),
        effects=("Copies take all the network that there is.",),
        run=lambda each: apply_throttles(each.client, plan),
    )


def _elect(reach: Reach, arguments: Arguments) -> ActionPlan:
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

    topics = reach.client.metadata(_topics(arguments)).topics
    moved: dict[TopicPartition, tuple[int, int]] = {}
    for name, found in topics.items():
        for index, each in found.partitions.items():
            first = int(each.replicas[0]) if each.replicas else -1
            if first != each.leader and first in each.in_sync:
                moved[TopicPartition(name, index)] = int(each.leader), first
    if not moved:
        raise AdminError("Each partition is led by its first copy, or that one is not in sync")
    names = sorted({each.topic for each in moved})

    def run(reaching: Reach) -> None:
        wanted = [
            TopicPartitions(topic=name, partitions=[each.partition for each in sorted(moved) if each.topic == name])
            for name in names
        ]
        request = ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=30_000)
        answer = reaching.client.request(request, controller=True)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        for topic in answer.replica_election_results:
            for each in topic.partition_result:
                code = ErrorCode(each.error_code)
                if code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                    raise KafkaError(code, f"{topic.topic}-{each.partition_id}: {each.error_message or code.name}")

    words = [
        command(
            "leader-election", "--election-type", "preferred", "--topic", each.topic, "--partition", str(each.partition)
        )
        for each in sorted(moved)
    ]
    return ActionPlan(
        "elect-preferred",
        dict(arguments),
        tuple(Difference(f"{each}/leader", old, new) for each, (old, new) in sorted(moved.items())),
        " && ".join(words[:20]),
        effects=("Clients of these partitions find their new leaders by themselves, within a moment.",),
        run=run,
    )


def _remove_voter(reach: Reach, arguments: Arguments) -> ActionPlan:
    node, folder = number(arguments, "node"), text(arguments, "directory_id")
    if node is None:
        raise AdminError("node is needed")
    try:
        directory = parse_uuid(folder)
    except ValueError:
        raise AdminError(f"directory_id is a UUID as Kafka writes it, not {folder!r}") from None
    words = ("metadata-quorum", "remove-controller", "--controller-id", str(node), "--controller-directory-id", folder)
    return ActionPlan(
        "remove-voter",
        dict(arguments),
        (Difference(f"quorum/voter {node}", folder, None),),
        command(*words),
        effects=("It goes on to follow until it is stopped; the others decide without it.",),
        warnings=("With fewer voters fewer may fail.",),
        typed=str(node),
        run=lambda each: remove_voter(each.client, node, directory),
    )


MOVES: Mapping[str, Planner] = {
    "reassign": _reassign,
    "cancel-reassignment": _cancel,
    "remove-throttle": _remove_throttle,
    "elect-preferred": _elect,
    "remove-voter": _remove_voter,
}
