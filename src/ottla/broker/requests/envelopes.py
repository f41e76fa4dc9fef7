"""A client's request on its way to the active controller: an Envelope of its bytes and of who sent it (KIP-590)."""

from __future__ import annotations

from typing import Any

from ottla.base import ErrorCode, KafkaError
from ottla.broker.controller.channel import ControllerChannel
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.principals import address_bytes, principal_bytes
from ottla.wire import APIS, read_response
from ottla.wire.messages.envelope import EnvelopeRequest

__all__ = ["FORWARD_TIMEOUT_MS", "LENGTH_BYTES", "forward_frame"]

FORWARD_TIMEOUT_MS = 60_000
"""How long a broker goes on looking for a controller that answers, as Kafka's does."""
LENGTH_BYTES = 4


async def forward_frame(
    controller: ControllerChannel,
    connected: Connected,
    api_key: int,
    api_version: int,
    frame: bytes,
    *,
    timeout_ms: int = FORWARD_TIMEOUT_MS,
) -> Any:
    """Return the active controller's answer to a request's bytes, given to whoever is connected."""
    envelope = EnvelopeRequest(
        request_data=frame,
        request_principal=principal_bytes(connected.principal, by_token=connected.token_authenticated),
        client_host_address=address_bytes(connected.client_host),
    )
    response = await controller.ask(envelope, timeout_ms=timeout_ms, forwarded=api_key)
    if response.error_code or response.response_data is None:
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.UNSUPPORTED_VERSION:
            code = (
                ErrorCode.UNKNOWN_SERVER_ERROR
            )  # what the controller says of an envelope is not the client's business
        raise KafkaError(code)
    spec = APIS[api_key]
    return read_response(spec.response, response.response_data, spec.key, api_version)[1]
