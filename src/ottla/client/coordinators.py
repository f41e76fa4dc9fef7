"""Which broker coordinates a group or a transaction: FindCoordinator, and the answers that say it is another one."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.base import ErrorCode, KafkaError, NodeId
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

__all__ = ["Coordinated", "CoordinatorKind", "coordinator_error", "find_request", "read_found"]

MOVED = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
"""Codes that mean: ask again, perhaps elsewhere."""
KEYS_FROM = 4
NESTED = ("groups", "results", "topics", "partitions", "transaction_states")
"""The fields under which answers of coordinators keep their further codes."""


class CoordinatorKind(IntEnum):
    """What a key names (`key_type`; KIP-932 brought the third)."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Coordinated(NamedTuple):
    """Something that one broker coordinates: a group by its id, or a transactional id."""

    key: str
    kind: CoordinatorKind = CoordinatorKind.GROUP


def find_request(wanted: Coordinated, version: int) -> FindCoordinatorRequest:
    """Make the request; from version 4 on it holds a list of keys (KIP-699)."""
    if version < KEYS_FROM:
        return FindCoordinatorRequest(key=wanted.key, key_type=int(wanted.kind))
    return FindCoordinatorRequest(key_type=int(wanted.kind), coordinator_keys=[wanted.key])


def read_found(response: FindCoordinatorResponse, wanted: Coordinated) -> NodeId:
    """Return the coordinator's node id; raises KafkaError with the broker's code and words."""
    found: Any = next((each for each in response.coordinators if each.key == wanted.key), response)
    code = ErrorCode(found.error_code)
    if code.value:
        raise KafkaError(code, found.error_message or f"the coordinator of {wanted.key} is not known: {code.name}")
    return NodeId(found.node_id)


def coordinator_error(response: Any) -> ErrorCode | None:
    """Return the first code in an answer, at any depth, that sends the question to a coordinator again."""
    return next((code for code in _codes(response) if code in MOVED), None)


def _codes(answer: Any) -> Iterator[ErrorCode]:
    code = getattr(answer, "error_code", 0)
    if code:
        yield ErrorCode(code)
    for name in NESTED:
        for each in getattr(answer, name, None) or ():
            yield from _codes(each)
