"""Settings that change what expressions are worth, noted in the expressions: a plan travels without its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree.changing import changed, changed_query

PRESERVE_NULLS = "ksql.cast.strings.preserve.nulls"
NESTED_NULLS = "ksql.nested.error.set.null"


def rules_of(settings: Mapping[str, str]) -> e.Rules | None:
    """What settings say of expressions; None where that is the usual."""
    found = e.Rules(
        null_texts=settings.get(PRESERVE_NULLS, "true").strip().lower() == "false",
        whole=settings.get(NESTED_NULLS, "true").strip().lower() == "false",
    )
    return None if found == e.Rules() else found


def ruled(query: q.Query, settings: Mapping[str, str]) -> q.Query:
    """The query with the rules of its settings in every expression that they matter to."""
    rules = rules_of(settings)
    if rules is None:
        return query

    def change(node: e.Expression) -> e.Expression | None:
        if not isinstance(node, e.Cast | e.Call | e.MakeArray | e.MakeMap | e.MakeStruct) or node.rules is not None:
            return None
        return changed(replace(node, rules=rules), change)  # its parts are looked at now that it has them

    return changed_query(query, change)
