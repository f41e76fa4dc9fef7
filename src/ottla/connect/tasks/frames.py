"""The control channel's words: JSON in frames of their length, and how both ends prove that they know the token."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
from typing import Any

__all__ = ["FRAME_BYTES_MAX", "HEADER", "decode", "encode", "proof"]

HEADER = struct.Struct(">I")
FRAME_BYTES_MAX = 64 << 20
"""The longest frame: the offsets of a task with very many source partitions."""

_BYTES = "\0bytes"


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as a frame; byte strings in it survive."""
    body = json.dumps(message, default=_plain, separators=(",", ":")).encode()
    return HEADER.pack(len(body)) + body


def decode(body: bytes) -> dict[str, Any]:
    """Return the message of a frame's body; raises ValueError for what is none."""
    message = json.loads(body, object_hook=_whole)
    if not isinstance(message, dict):
        raise ValueError("a frame of the control channel holds an object")
    return message


def proof(token: str, nonce: str, *, side: str) -> str:
    """Return what shows that a side (`task` or `worker`) knows the token; the token itself is never sent."""
    return hmac.new(token.encode(), f"{side}:{nonce}".encode(), hashlib.sha256).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"a {type(value).__name__} cannot be sent over the control channel")


def _whole(found: dict[str, Any]) -> Any:
    return base64.b64decode(found[_BYTES]) if len(found) == 1 and _BYTES in found else found
