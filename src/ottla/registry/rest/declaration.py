"""What an address of the registry is, and the right that a caller needs for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ottla import service
from ottla.registry.authorization import Right
from ottla.registry.core.names import Subject
from ottla.registry.rest.asked import Asked

__all__ = ["ONCE", "Endpoint", "check"]

Answer = Callable[[Asked], Awaitable[Any]]
OF_EVERYTHING = {
    Right.SUBJECT_COMPATIBILITY_READ: Right.GLOBAL_COMPATIBILITY_READ,
    Right.SUBJECT_COMPATIBILITY_WRITE: Right.GLOBAL_COMPATIBILITY_WRITE,
}
"""What a configuration's or a mode's right is called where it is not a subject's."""
SETTINGS = ("/config", "/mode")
"""Addresses whose name may be a context or everything, and is never followed to what it is an alias of."""
CONTEXTS = "/contexts/{prefix_context}"


Endpoint: TypeAlias = service.Endpoint[Answer]
"""An address of the registry; its right is one of `Right`, on the path's subject, on everything where the path has none.

Lists, which have no right of their own, look for themselves.
"""
ONCE = frozenset({"once"})
"""The tag of what is not there for each context, too (`/contexts/.ctx/…`)."""


def check(endpoint: Endpoint, asked: Asked) -> None:
    """Raise RegistryError where the caller may not do this."""
    if not endpoint.right or asked.caller.authorizer is None:
        return
    right, subject = Right(endpoint.right), None
    if right in OF_EVERYTHING:
        meant = asked.scope() if endpoint.path.removeprefix(CONTEXTS).startswith(SETTINGS) else asked.subject()
        subject = None if meant is None or Subject.of(meant).is_context else meant
        right = OF_EVERYTHING[right] if subject is None else right
    elif right not in OF_EVERYTHING.values():
        subject = asked.subject()
    asked.caller.check(right, subject)
