"""One request as the endpoints see it: names with their context, parameters with their types, the body once read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ottla.http import Request
from ottla.registry.authorization import Caller
from ottla.registry.core import RegistryError, State
from ottla.registry.core.lookups import Page, aliased
from ottla.registry.core.names import ALL_CONTEXTS, DEFAULT_CONTEXT, Subject, context_name, in_context, scope_of
from ottla.registry.rest.bodies import read_body

__all__ = ["Asked"]

NEWER = "Confluent-Accept-Unknown-Properties"
"""With this header clients say that answers may have fields that they do not know."""


@dataclass(frozen=True)
class Asked:
    """A request; the context of its address is part of every name in it."""

    request: Request
    data: bytes
    state: State
    caller: Caller

    @property
    def context(self) -> str:
        """The context that the address begins with (`/contexts/.ctx/…`)."""
        named = self.request.match_info.get("prefix_context")
        return DEFAULT_CONTEXT if named is None else context_name(named)

    @property
    def takes_more(self) -> bool:
        """Whether the client takes fields that it may not know, as the GUIDs of Confluent's version 8."""
        return self.request.headers.get(NEWER, "").lower() == "true"

    def body(self, what: str) -> dict[str, Any]:
        """Return the body's object; raises RegistryError."""
        return read_body(self.data, what)

    def path(self, name: str) -> str:
        """Return a name of the path."""
        return self.request.match_info[name]

    def subject(self) -> str:
        """Return the whole name of the path's subject, or of the one that it is an alias of."""
        return aliased(self.state, str(Subject.of(in_context(self.context, self.path("subject")))))

    def scope(self) -> str | None:
        """Return whose configuration or mode is meant: of a subject, of a context, or None for everything."""
        return scope_of(in_context(self.context, self.request.match_info.get("subject", "")))

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter, the first of several."""
        return self.request.query.get(name, default)

    def texts(self, name: str) -> list[str]:
        """Return all values of a parameter."""
        return self.request.query.getall(name, [])

    def flag(self, name: str) -> bool:
        """Return a parameter that is true or false; anything but `true` is false."""
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Return a whole number; raises RegistryError."""
        text = self.text(name) or str(default)
        if not re.fullmatch(r"[+-]?[0-9]{1,10}", text):
            raise RegistryError(400, f"{name} must be a whole number")
        return int(text)

    def page(self) -> Page:
        """Return the part of a list that is asked for."""
        return Page(self.number("offset", 0), self.number("limit", -1))

    def prefix(self) -> str:
        """Return how the subjects begin that are asked for; those of all contexts where nothing is said."""
        if self.context == DEFAULT_CONTEXT:
            return self.text("subjectPrefix", ALL_CONTEXTS)
        return in_context(self.context, self.text("subjectPrefix"))

    def hint(self) -> str:
        """Return the subject that says in which context an id is meant."""
        given = self.text("subject")
        if not given:
            return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"
        return aliased(self.state, in_context(self.context, given))
