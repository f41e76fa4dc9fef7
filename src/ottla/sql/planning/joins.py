"""FROM with joins."""

from __future__ import annotations

from ottla.sql.catalogue import Catalogue
from ottla.sql.errors import UnsupportedError
from ottla.sql.plan import Node
from ottla.sql.tree import queries as q


def joined(query: q.Query, catalogue: Catalogue) -> Node:
    """The relation of a query with joins; raises SqlError in ksqlDB's words."""
    raise UnsupportedError("a join")
