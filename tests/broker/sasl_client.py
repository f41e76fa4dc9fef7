"""A plain client of a SASL listener, and how such a listener is configured."""

from __future__ import annotations

import struct
from typing import Any

from ottla.security.sasl import ClientExchange, PlainClient
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.node_client import NodeClient

__all__ = ["PLAIN", "authenticate", "bare", "handshake", "is_closed", "log_in", "log_in_by", "plain_settings"]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def plain_settings(*more: str, listener: str = "SASL_PLAINTEXT", **users: str) -> tuple[str, ...]:
    """Return the settings of a node with one listener, where these users log in by PLAIN."""
    options = "".join(f' user_{name}="{password}"' for name, password in users.items())
    return (
        f"listeners={listener}://127.0.0.1:0",
        f"security.inter.broker.protocol={listener}",
        "sasl.enabled.mechanisms=PLAIN",
        f"listener.name.{listener.lower()}.plain.sasl.jaas.config={PLAIN} required{options};",
        *more,
    )


async def handshake(client: NodeClient, mechanism: str = "PLAIN", version: int = 1) -> Any:
    """Choose a mechanism."""
    return await client.ask(SaslHandshakeRequest(mechanism=mechanism), version)


async def authenticate(client: NodeClient, token: bytes, version: int = 2) -> Any:
    """Send a token."""
    return await client.ask(SaslAuthenticateRequest(auth_bytes=token), version)


async def log_in(client: NodeClient, user: str = "ann", password: str = "x", *, version: int = 2) -> Any:
    """Log in by PLAIN and return the last answer."""
    return await log_in_by(client, PlainClient(user, password), version=version)


async def log_in_by(client: NodeClient, exchange: ClientExchange, *, version: int = 2) -> Any:
    """Log in by any mechanism and return the last answer, be it a refusal."""
    answer = await handshake(client, exchange.mechanism)
    assert answer.error_code == 0, answer
    token: bytes | None = exchange.start()
    while token is not None:
        answer = await authenticate(client, token, version)
        if answer.error_code:
            break
        token = exchange.respond(bytes(answer.auth_bytes))
    return answer


async def bare(client: NodeClient, token: bytes) -> bytes:
    """Send a token without a request around it, and return the server's."""
    client.writer.write(struct.pack(">i", len(token)) + token)
    return await client.frame()


async def is_closed(client: NodeClient) -> bool:
    """Wait for the broker to hang up; False where it says something first."""
    return not await client.reader.read(1)
