"""Where new replicas go: spread over racks first, then over brokers, with leaders taking turns.

Racks take turns partition by partition, so that leaders spread; within a partition every further replica goes to the
next rack, so that replicas share a rack only where there are fewer racks than replicas. Fenced brokers hold replicas
only where the others do not suffice, and never lead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.base import ErrorCode, KafkaError, NodeId, Rng, Uuid
from ottla.metadata.image import DIRECTORY_UNASSIGNED, Broker, Image

__all__ = ["place", "replica_directory"]


@dataclass(frozen=True, slots=True)
class _Rack:
    unfenced: tuple[NodeId, ...]
    fenced: tuple[NodeId, ...]


def place(brokers: Iterable[Broker], *, partitions: int, replication_factor: int, rng: Rng) -> list[tuple[NodeId, ...]]:
    """Return the replicas of each new partition, the preferred leader first; raises INVALID_REPLICATION_FACTOR."""
    usable = [each for each in brokers if not _cordoned(each)]
    if not any(not each.fenced for each in usable):
        raise _refused("All brokers are currently fenced, or have all their log directories cordoned.")
    if replication_factor > len(usable):
        raise _refused(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _racks(usable, rng)
    start = rng.randrange(len(racks) * max(len(each.unfenced) for each in racks) or 1)
    return [_replicas(racks, start + index, replication_factor) for index in range(partitions)]


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def _cordoned(broker: Broker) -> bool:
    """True where the broker takes no new replica in any of its directories (KIP-1066)."""
    return bool(broker.log_dirs) and set(broker.log_dirs) <= set(broker.cordoned_log_dirs)


def _racks(brokers: Sequence[Broker], rng: Rng) -> list[_Rack]:
    """Return racks that can lead first, each with its brokers from a random one on."""
    names = sorted({each.rack or "" for each in brokers})
    racks = []
    for name in names:
        members = sorted((each for each in brokers if (each.rack or "") == name), key=lambda each: each.id)
        unfenced = tuple(each.id for each in members if not each.fenced)
        fenced = tuple(each.id for each in members if each.fenced)
        racks.append(_Rack(_rotated(unfenced, rng.randrange(len(unfenced) or 1)), fenced))
    return racks


def _rotated(ids: tuple[NodeId, ...], by: int) -> tuple[NodeId, ...]:
    by = by % len(ids) if ids else 0
    return ids[by:] + ids[:by]


def _replicas(racks: list[_Rack], turn: int, count: int) -> tuple[NodeId, ...]:
    """Return one partition's replicas: a leader by turn, then followers rack by rack, fenced brokers last."""
    leading = [rack for rack in racks if rack.unfenced]
    rack_turn, broker_turn = turn % len(leading), turn // len(leading)
    first = leading[rack_turn]
    leader = first.unfenced[broker_turn % len(first.unfenced)]
    at = racks.index(first)
    ordered = [*racks[at + 1 :], *racks[:at], first]  # the leader's own rack comes last
    found = [leader]
    for fenced in (False, True):
        queues = []
        for rack in ordered:
            ids = rack.fenced if fenced else rack.unfenced
            shift = broker_turn + 1 + broker_turn // max(len(ids), 1)
            queues.append([each for each in _rotated(ids, shift) if each != leader])
        found.extend(_taken_in_turn(queues, count - len(found)))
    return tuple(found)


def _taken_in_turn(queues: list[list[NodeId]], count: int) -> list[NodeId]:
    found: list[NodeId] = []
    depth = 0
    while len(found) < count and any(depth < len(queue) for queue in queues):
        found.extend(queue[depth] for queue in queues if depth < len(queue))
        depth += 1
    return found[:count]


def replica_directory(image: Image, broker_id: int) -> Uuid:
    """Return the directory of a new replica: the broker's only one, else unassigned until it chooses (KIP-858)."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return DIRECTORY_UNASSIGNED
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else DIRECTORY_UNASSIGNED
