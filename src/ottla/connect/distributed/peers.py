"""What a worker asks of the leader over REST, signed with the key that only workers can read (KIP-507)."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote

from ottla.base import OttlaError
from ottla.connect.decisions import sign
from ottla.connect.errors import ConnectError
from ottla.connect.storage import SessionKey

__all__ = ["Answer", "Ask", "ask_to_fence", "send_tasks"]


class Answer(Protocol):
    """What another worker answers."""

    @property
    def status(self) -> int:
        """HTTP's status."""
        ...

    @property
    def body(self) -> bytes:
        """The body."""
        ...


Ask = Callable[[str, str, bytes, Mapping[str, str]], Awaitable[Answer]]
"""Sends method, address, body and headers to another worker, and returns the answer, whatever its status."""


async def send_tasks(
    ask: Ask,
    leader_url: str | None,
    connector: str,
    configs: Sequence[Mapping[str, str | None]],
    session: SessionKey | None,
    algorithm: str,
) -> None:
    """Give the leader a connector's task configurations; raises ConnectError where it does not take them."""
    body = json.dumps([dict(each) for each in configs]).encode()
    await _send(ask, "POST", leader_url, f"/connectors/{quote(connector, safe='')}/tasks", body, session, algorithm)


async def ask_to_fence(
    ask: Ask, leader_url: str | None, connector: str, session: SessionKey | None, algorithm: str
) -> None:
    """Ask the leader to fence a source connector's older tasks (KIP-618); raises ConnectError where it does not."""
    await _send(ask, "PUT", leader_url, f"/connectors/{quote(connector, safe='')}/fence", b"", session, algorithm)


async def _send(
    ask: Ask, method: str, url: str | None, path: str, body: bytes, session: SessionKey | None, algorithm: str
) -> None:
    if not url:
        raise ConnectError("The URL of the leader's REST interface is not known yet")
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if session is not None:
        signature = sign(body, SessionKey(session.key, algorithm, session.created_ms))
        headers["X-Connect-Authorization"] = base64.b64encode(signature.mac).decode()
        headers["X-Connect-Request-Signature-Algorithm"] = signature.algorithm
    try:
        answer = await ask(method, url.rstrip("/") + path, body, headers)
    except OttlaError as error:
        raise ConnectError(f"The leader at {url} cannot be asked: {error}") from error
    if answer.status >= 300:
        raise ConnectError(f"The leader at {url} answered {answer.status} to {method} {path}: {_message(answer.body)}")


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return body[:200].decode(errors="replace")
