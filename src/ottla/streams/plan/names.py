"""Names of processors and stores: numbered as Kafka Streams numbers them, or given."""

from __future__ import annotations

import re

from ottla.streams.errors import TopologyError

__all__ = ["Names", "validated"]

NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"^[a-zA-Z0-9._-]+$")


class Names:
    """One counter for a plan: every step takes its numbers, also where its name is given, so that others keep theirs."""

    def __init__(self) -> None:
        self._next = 0

    def processor(self, prefix: str) -> str:
        """Return `<prefix><ten digits>` and go on by one."""
        name = f"{prefix}{self._next:010d}"
        self._next += 1
        return name

    def store(self, prefix: str) -> str:
        """Return a generated store name."""
        return self.processor(prefix + "STATE-STORE-")

    def given_or(self, given: str | None, prefix: str) -> str:
        """Return the given name or a generated one; a number is used up in both cases."""
        generated = self.processor(prefix)
        return generated if given is None else validated(given)

    def suffixed_or(self, given: str | None, *, suffix: str, prefix: str) -> str:
        """Return the given name with a suffix, or a generated one; a number is used up in both cases."""
        generated = self.processor(prefix)
        return generated if given is None else validated(given + suffix)


def validated(name: str) -> str:
    """Return a legal name; raises TopologyError where it could not be part of a topic's name."""
    if not isinstance(name, str) or not _LEGAL.match(name) or name in {".", ".."} or len(name) > NAME_LENGTH_MAX:
        raise TopologyError(
            "", f"illegal name {name!r}: expected 1 to {NAME_LENGTH_MAX} ASCII letters, digits, '.', '_' and '-'"
        )
    return name
