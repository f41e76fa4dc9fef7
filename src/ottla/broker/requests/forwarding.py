"""Requests that only the active controller can answer, on a broker that is not it (KIP-590).

The broker wraps such a request in an Envelope, with the principal and the address of the client who sent it, and passes the
controller's answer on. Where this node leads the quorum, its own handler answers in process; if the leadership is lost
before the answer is committed, the new leader is asked, so that clients hear nothing of elections.
"""

from __future__ import annotations

from typing import Any

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.envelopes import LENGTH_BYTES, forward_frame
from ottla.broker.requests.error_counts import has_moved
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.local_requests import dispatch
from ottla.wire import APIS, ApiKey, Message, encode_request

__all__ = ["forward", "from_controller"]

DECIDED_AT_ONCE_MAX = 10_000
"""Elements of one request: a decision sees one moment of the cluster, so it cannot pause."""


async def from_controller(handler: Handler[Any], context: RequestContext[ControllerParts], request: Any) -> Any:
    """Return the active controller's answer: this node's own where it is that, or was asked as a controller."""
    _check_size(request)
    as_controller = context.connected.is_controller
    if as_controller or context.services.quorum.is_leader:
        answer = await dispatch(handler, context, request)
        assert isinstance(answer, Message), "what is forwarded is answered with a message"
        if as_controller or not has_moved(answer):
            return answer
    return await forward(context, request)


OF_NODES = frozenset({ApiKey.ALTER_PARTITION, ApiKey.ASSIGN_REPLICAS_TO_DIRS})
"""What brokers ask of all that they hold, and a failed disk has them ask at once: of theirs the topics count."""
_KNOWN: dict[type[Message], tuple[str, ...]] = {}
"""What `_arrays` has found, by class."""
_REQUESTS = frozenset(spec.request for spec in APIS.values())


def _check_size(request: Any) -> None:
    """Raise POLICY_VIOLATION for more than may be decided at one moment, as Kafka does of records."""
    if _elements(request, looks_within=request.API_KEY not in OF_NODES) > DECIDED_AT_ONCE_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def _elements(message: Message, *, looks_within: bool = True) -> int:
    """Return how many elements a request's arrays have, those within others too; what holds others counts as they do.

    Counting ends where there are too many. Where the elements of an array hold no arrays they are not looked at.
    """
    found = 0
    for name in _arrays(type(message)):
        values = getattr(message, name) or ()
        within = 0
        if looks_within and values and isinstance(values[0], Message) and _arrays(type(values[0])):
            for each in values:
                within += _elements(each)
                if within > DECIDED_AT_ONCE_MAX:
                    return within
        found += max(len(values), within)
    return found


def _arrays(kind: type[Message]) -> tuple[str, ...]:
    """Return a message's fields that are arrays of things to decide: a partition's copies, plain values, are none."""
    found = _KNOWN.get(kind)
    if found is None:
        found = _KNOWN[kind] = _arrays_of(kind)
    return found


def _arrays_of(kind: type[Message]) -> tuple[str, ...]:
    return tuple(field.name for field in kind.FIELDS if field.kind.startswith("[]") and _holds_things(kind, field.kind))


def _holds_things(kind: type[Message], field_kind: str) -> bool:
    """Return whether an array is of messages, or of a request's own plain values."""
    return field_kind == "[]struct" or kind in _REQUESTS


async def forward(context: RequestContext[ControllerParts], request: Any) -> Any:
    """Return the active controller's answer to a request, given to its client's principal."""
    frame = encode_request(request, context.api_version, context.correlation_id, context.client_id)
    return await forward_frame(
        context.services.controller, context.connected, context.api_key, context.api_version, frame[LENGTH_BYTES:]
    )
