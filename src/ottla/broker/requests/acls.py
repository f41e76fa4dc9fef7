"""What the three APIs of ACLs share while there is no authorizer: what a request must not hold, and Kafka's refusal.

Kafka offers them without an authorizer too and answers SECURITY_DISABLED; where they are missing, clients take the broker
for one that is too old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.base import ErrorCode, KafkaError, WireError
from ottla.wire import Message, decode

__all__ = ["disabled", "reader"]

M = TypeVar("M", bound=Message)
UNKNOWN = 0
"""The code of UNKNOWN in each of Kafka's four enumerations: resources, patterns, operations, permissions."""


def reader(request: type[M], codes: Callable[[M], Iterable[int]]) -> Callable[[memoryview, int, int], M]:
    """Return a handler's `read`; it raises WireError for a request with an UNKNOWN among its `codes`.

    Kafka's classes cannot hold such a request, so its broker closes the connection before it looks for an authorizer.
    """

    def read(frame: memoryview, version: int, position: int) -> M:
        message, _ = decode(request, frame, version, position)
        if UNKNOWN in codes(message):
            raise WireError(f"{request.__name__} contains UNKNOWN elements")
        return message

    return read


def disabled(text: str) -> KafkaError:
    """Return SECURITY_DISABLED with Kafka's words."""
    return KafkaError(ErrorCode.SECURITY_DISABLED, text)
