"""A host that is gone, and may live on without knowing it: nothing that it sends counts any more.

Exactly once, whoever takes a transactional id over fences who has it. At least once a host commits as the driver's member
of its application's group: so the driver begins another generation, and coordinators answer ILLEGAL_GENERATION to the one
before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping

from ottla.base import ErrorCode, KafkaError
from ottla.client import ConsumerGroupMetadata

__all__ = ["Renew", "fence_all"]

log = logging.getLogger(__name__)
BETWEEN_SECONDS = 0.5
"""Between two tries."""
NOT_ALLOWED = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.SASL_AUTHENTICATION_FAILED})
"""What a principal is answered that may not use a transactional id any more: it could not commit by it either."""
Renew = Callable[[], Awaitable[ConsumerGroupMetadata | None]]
"""Begins another generation of an application's driver, which it returns; None where another driver has followed."""


async def fence_all(
    fences: Mapping[Hashable, Callable[[], Awaitable[None]]], whom: str, is_over: Callable[[], bool]
) -> None:
    """Have each of some fences put up, again and again while the cluster does not answer, or until it `is_over`."""
    left = dict(fences)
    while left and not is_over():
        for name, fence in list(left.items()):
            try:
                await fence()
                del left[name]
            except (KafkaError, OSError) as error:
                if isinstance(error, KafkaError) and error.code in NOT_ALLOWED:
                    del left[name]
                log.warning("%s cannot be fenced yet: %s", whom, error)
        if left:
            await asyncio.sleep(BETWEEN_SECONDS)
