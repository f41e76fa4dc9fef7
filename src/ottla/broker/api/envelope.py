"""Envelope (KIP-590): a client's request that a broker passes on to the controller, answered as if the client had asked."""

from __future__ import annotations

from typing import Any

from ottla.base import ErrorCode, KafkaError, WireError
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.error_counts import has_moved
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.local_requests import dispatch
from ottla.broker.requests.principals import address_text, read_principal
from ottla.broker.services import Services
from ottla.security import Needs, Operation, Resource
from ottla.wire import Message, decode, encode_response, read_request_header
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

__all__ = ["HANDLER"]

LENGTH_BYTES = 4


async def envelope(context: RequestContext[Services], request: EnvelopeRequest) -> EnvelopeResponse:
    """Unwrap, let the API's own handler answer for the client's principal, and wrap its answer."""
    inner, handler, message = _unwrapped(context, request)
    try:
        answer = await dispatch(handler, inner, message)
    except WireError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    assert isinstance(answer, Message), "what is forwarded is answered with a message"
    if has_moved(answer):
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    data = encode_response(answer, inner.api_key, inner.api_version, inner.correlation_id)
    return EnvelopeResponse(response_data=data[LENGTH_BYTES:])


def _unwrapped(
    context: RequestContext[Services], request: EnvelopeRequest
) -> tuple[RequestContext[Services], Handler[Any], Any]:
    """Return who asks, what answers, and what is asked; raises KafkaError where the envelope holds no such thing."""
    principal, by_token = read_principal(request.request_principal)
    client_host = address_text(request.client_host_address)
    frame = memoryview(request.request_data)
    try:
        header, position = read_request_header(frame)
        handler = next((each for each in context.services.handlers if each.api_key == header.api_key), None)
        if handler is None or not handler.forwards:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"API {header.api_key} is not eligible for forwarding")
        if not handler.versions[0] <= header.api_version <= handler.versions[1]:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        message, _ = decode(handler.request, frame, header.api_version, position)
    except WireError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    inner = RequestContext(
        context.services,
        Connected(
            listener=context.connected.listener,
            client_host=client_host,
            principal=principal,
            is_controller=True,
            token_authenticated=by_token,
        ),
        header.api_key,
        header.api_version,
        header.correlation_id,
        header.client_id,
        context.request_bytes,
        context.started_ns,
    )
    return inner, handler, message


HANDLER = Handler(
    EnvelopeRequest,
    versions=(0, 0),
    needs=Needs(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    handle=envelope,
)
