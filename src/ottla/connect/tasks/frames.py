"""The control channel's words: JSON in frames of their length, and how both ends prove that they know the token.

The proof comes first, in bytes of a fixed length, so that nothing of a stranger's is parsed and little of it is kept:

1. the worker sends a challenge;
2. the task sends a greeting: the attempt's name, a challenge of its own, and its proof;
3. the worker sends its proof. Frames follow.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
from typing import Any

__all__ = [
    "CHALLENGE_BYTES",
    "FRAME_BYTES_MAX",
    "GREETING",
    "HEADER",
    "NAME_BYTES",
    "PROOF_BYTES",
    "decode",
    "encode",
    "is_proof",
    "proof",
]

HEADER = struct.Struct(">I")
FRAME_BYTES_MAX = 64 << 20
"""The longest frame: the offsets of a task with very many source partitions."""
CHALLENGE_BYTES = 32
NAME_BYTES = 16
"""An attempt's name is so many letters of ASCII."""
PROOF_BYTES = hashlib.sha256().digest_size
GREETING = struct.Struct(f">{NAME_BYTES}s{CHALLENGE_BYTES}s{PROOF_BYTES}s")
"""A task's: the attempt, its challenge to the worker, its proof."""

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


def proof(token: str, challenge: bytes, own: bytes, *, side: str) -> bytes:
    """Return what shows that a side (`task` or `worker`) knows the token; the token itself is never sent.

    `challenge` is the worker's and `own` the task's, in both proofs.
    """
    return hmac.digest(token.encode(), side.encode() + b":" + challenge + own, "sha256")


def is_proof(token: str, challenge: bytes, own: bytes, *, side: str, found: bytes) -> bool:
    """Return whether a proof is right; its time says nothing of how much of it is."""
    return hmac.compare_digest(found, proof(token, challenge, own, side=side))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"a {type(value).__name__} cannot be sent over the control channel")


def _whole(found: dict[str, Any]) -> Any:
    return base64.b64decode(found[_BYTES]) if len(found) == 1 and _BYTES in found else found
