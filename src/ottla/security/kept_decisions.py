"""Decisions that are kept, and which of them a change of the entries can touch.

An entry is about the names of one type of resource that are its own, or begin with it, or about all of them. Whom it is
about does not matter: any entry on a resource denies it to those whom none allows. So a change of one name's entries leaves
alone what was decided of other names, and a hundred changes a second cost a broker with thousands of decisions no more than
one with a few.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.security.access import Operation, Resource
from ottla.security.acls import ANYTHING, Acl, PatternType

__all__ = ["DECISIONS_MAX", "Decision", "KeptDecisions", "Question"]

DECISIONS_MAX = 10_000
"""Decisions that are kept: clients choose names, and must not be able to fill the memory with them."""
NAME_KEPT_MAX = 256
"""Characters of a name for which a decision is kept: topics have 249 at most, but a group may call itself anything."""
NAMES_LOOKED_AT_MAX = 1_000
"""Names that are held against a prefix; where a type has more, all of its decisions are forgotten."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, and by which rule: `rule` is Kafka's name of it, `acl` the entry that decided, if one did."""

    allowed: bool
    rule: str
    acl: Acl | None = None


Question = tuple[str, str, Operation, Resource, str]
"""Principal, address, operation, type of resource and its name."""


class KeptDecisions:
    """What was decided by the entries as they are now."""

    def __init__(self) -> None:
        self._decided: dict[Question, Decision] = {}
        self._asked: dict[Resource, dict[str, list[Question]]] = {}
        """The same questions by type and name."""

    @property
    def by_question(self) -> Mapping[Question, Decision]:
        """One and the same mapping, from which what a change touches goes."""
        return self._decided

    def keep(self, question: Question, decision: Decision) -> None:
        """Keep a decision that is not kept yet; one about a long name is not."""
        resource, name = question[3], question[4]
        if len(name) > NAME_KEPT_MAX:
            return
        if len(self._decided) >= DECISIONS_MAX:
            self.forget_all()
        self._decided[question] = decision
        self._asked.setdefault(resource, {}).setdefault(name, []).append(question)

    def forget_all(self) -> None:
        """Forget everything: what is decided by has been exchanged."""
        self._decided.clear()
        self._asked.clear()

    def forget(self, acl: Acl) -> None:
        """Forget what an entry that came, or went, may have a say in."""
        names = self._asked.get(acl.resource_type)
        if names is None:
            return
        concerned: list[str]
        if acl.pattern_type is PatternType.LITERAL and acl.resource_name != ANYTHING:
            concerned = [acl.resource_name] if acl.resource_name in names else []
        elif acl.pattern_type is PatternType.PREFIXED and len(names) <= NAMES_LOOKED_AT_MAX:
            concerned = [name for name in names if name.startswith(acl.resource_name)]
        else:
            concerned = list(names)
        for name in concerned:
            for question in names.pop(name):
                del self._decided[question]
