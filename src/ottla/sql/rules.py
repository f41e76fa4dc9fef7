"""Under which rules a statement is read: those of the day on which it was taken.

Statements are kept, in a command topic, and read again for years. A version that refuses more than the one before must not
refuse what that one took, or give it another meaning: queries would be gone after an upgrade. So whatever refuses, or means,
something else than before asks here whether its rules hold, and a command says under which it was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

FIRST: Final = 0
"""Of commands that say nothing about rules: versions up to 0.3 wrote them."""
STRICT: Final = 1
"""Names of 1 to 200 characters, none blank; numbers and precisions within bounds; windowed sources have a key, are moved to
no other and joined with their like; source streams and tables are only read; topics that others have are not deleted;
hopping windows overlap a bounded number of times; PARTITION BY is by something, and its `*` has the old key last;
a join's `*` has the bounds of its sources' windows; maps have
texts as keys in PROTOBUF, too."""
LATEST: Final = STRICT
_RULES: ContextVar[int] = ContextVar("rules", default=LATEST)


@contextmanager
def under(rules: int) -> Iterator[None]:
    """Read statements under these rules in the block; later ones than are known here are the latest."""
    before = _RULES.set(rules)
    try:
        yield
    finally:
        _RULES.reset(before)


def hold(rules: int) -> bool:
    """Whether these rules are those of the statement that is read, or older than they are."""
    return rules <= _RULES.get()
