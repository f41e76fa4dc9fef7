"""Requests that only the active controller can answer, on a broker that is not it (KIP-590).

The broker wraps such a request in an Envelope, with the principal and the address of the client who sent it, and passes the
controller's answer on. Where this node leads the quorum, its own handler answers in process; if the leadership is lost
before the answer is committed, the new leader is asked, so that clients hear nothing of elections.
"""

from __future__ import annotations

from typing import Any

from ottla.base import ErrorCode, KafkaError
from ottla.broker.parts import ControllerParts
from ottla.broker.requests.error_counts import has_moved
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.local_requests import dispatch
from ottla.broker.requests.principals import address_bytes, principal_bytes
from ottla.wire import APIS, Message, encode_request, read_response
from ottla.wire.messages.envelope import EnvelopeRequest

__all__ = ["FORWARD_TIMEOUT_MS", "forward", "from_controller"]

FORWARD_TIMEOUT_MS = 60_000
"""How long a broker goes on looking for a controller that answers, as Kafka's does."""
LENGTH_BYTES = 4


async def from_controller(handler: Handler[Any], context: RequestContext[ControllerParts], request: Any) -> Any:
    """Return the active controller's answer: this node's own where it is that, or was asked as a controller."""
    as_controller = context.connected.is_controller
    if as_controller or context.services.quorum.is_leader:
        answer = await dispatch(handler, context, request)
        assert isinstance(answer, Message), "what is forwarded is answered with a message"
        if as_controller or not has_moved(answer):
            return answer
    return await forward(context, request)


async def forward(context: RequestContext[ControllerParts], request: Any) -> Any:
    """Return the active controller's answer to a request, given to its client's principal."""
    envelope = EnvelopeRequest(
        request_data=encode_request(request, context.api_version, context.correlation_id, context.client_id)[
            LENGTH_BYTES:
        ],
        request_principal=principal_bytes(context.connected.principal),
        client_host_address=address_bytes(context.connected.client_host),
    )
    response = await context.services.controller.ask(envelope, timeout_ms=FORWARD_TIMEOUT_MS, forwarded=context.api_key)
    if response.error_code or response.response_data is None:
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.UNSUPPORTED_VERSION:
            code = (
                ErrorCode.UNKNOWN_SERVER_ERROR
            )  # what the controller says of an envelope is not the client's business
        raise KafkaError(code)
    spec = APIS[context.api_key]
    return read_response(spec.response, response.response_data, spec.key, context.api_version)[1]
