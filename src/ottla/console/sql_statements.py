"""What a statement of SQL would do, by its tree alone: what it reads, tells and writes, and for whom it is. Pure.

A SQL server works under its own principal and knows none of the console's users. So the console judges. A text is one
statement or none. Its kind is in the table below, or it is refused. What is sent is printed from the tree that was judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.sql import ParseError, SqlError, single_statement, statement_text
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s

__all__ = ["CHANGE", "KINDS", "OTHER", "QUERY", "READ", "Needs", "Statement", "judged", "kind_of_word", "sources_of"]

QUERY, READ, CHANGE, OTHER = "query", "read", "change", "other"
READS: Final = frozenset({"SHOW", "LIST", "DESCRIBE", "EXPLAIN"})
OTHERS: Final = frozenset({"SET", "UNSET", "DEFINE", "UNDEFINE", "PRINT", "RUN"})
TOPIC: Final = "KAFKA_TOPIC"


@dataclass(frozen=True, slots=True)
class Needs:
    """What somebody needs who has a statement carried out. Names are those of streams and tables, topics are topics."""

    kind: str
    """`query`, `read` or `change`; `other` is for nobody here, `because` says why."""
    cluster: tuple[str, ...] = ()
    """Operations on the cluster."""
    reads: tuple[str, ...] = ()
    """Whose records it shows, copies or writes elsewhere: READ on their topics, and no mask over them."""
    shows: tuple[str, ...] = ()
    """Whose columns it tells of: DESCRIBE on their topics."""
    writes: tuple[str, ...] = ()
    """To whose topics it writes: WRITE."""
    deletes: tuple[str, ...] = ()
    """Whose topics go with it: DELETE."""
    over: str | None = None
    """The topic that a new stream or table is over: READ where it is there, else CREATE."""
    fills: str | None = None
    """The topic that a new query fills: WRITE where it is there, else CREATE."""
    query_id: str | None = None
    """The running query that it tells of: as for what that one reads."""
    tells_all: bool = False
    """True where it quotes statements of others: for nobody from whom a mask hides something."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings that it holds, and that would stand in the list of changes: none of them may be a secret."""
    because: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that was judged; `text` is printed from its tree."""

    tree: s.Statement
    text: str
    needs: Needs


def judged(text: str) -> Statement:
    """Return the one statement of a text with what it needs; raises SqlError for anything else."""
    tree = single_statement(text)
    try:
        printed = statement_text(tree)
        same = single_statement(printed) == tree
    except (AssertionError, RecursionError, SqlError):
        same = False
    if not same:
        raise ParseError("This statement cannot be written down so that it says the same: simplify it", 1, 1)
    return Statement(tree, f"{printed};", needs_of(tree))


def kind_of_word(first: str) -> str:
    """Return what a statement seems to be by its first word: for the page, which asks in different ways."""
    if first == "SELECT":
        return QUERY
    return READ if first in READS else OTHER if first in OTHERS else CHANGE


def needs_of(tree: s.Statement) -> Needs:
    """Return what a statement needs; what is not in the table is for nobody."""
    found = KINDS.get(type(tree))
    return Needs(OTHER, because="this kind of statement is not known here") if found is None else found(tree)


def sources_of(query: q.Query) -> tuple[str, ...]:
    """Return the streams and tables that a query reads: there are no others, since the grammar has no query inside one."""
    return (query.source.name, *(each.right.name for each in query.joins))


# -- one function for each kind


def _create_source(tree: s.CreateSource) -> Needs:
    return Needs(CHANGE, ("ALTER",), over=_topic(tree.properties) or tree.name)


def _create_as(tree: s.CreateAs) -> Needs:
    return Needs(CHANGE, ("ALTER",), reads=sources_of(tree.query), fills=_topic(tree.properties) or tree.name)


def _insert_into(tree: s.InsertInto) -> Needs:
    return Needs(CHANGE, ("ALTER",), reads=sources_of(tree.query), writes=(tree.name,))


def _insert_values(tree: s.InsertValues) -> Needs:
    return Needs(CHANGE, ("ALTER",), writes=(tree.name,))


def _drop_source(tree: s.DropSource) -> Needs:
    return Needs(CHANGE, ("ALTER",), shows=(tree.name,), deletes=(tree.name,) if tree.delete_topic else ())


def _alter_source(tree: s.AlterSource) -> Needs:
    return Needs(CHANGE, ("ALTER",), shows=(tree.name,))


def _create_connector(tree: s.CreateConnector) -> Needs:
    given = tuple((name, _literal(value)) for name, value in tree.properties)
    return Needs(CHANGE, ("ALTER",), settings=given)


def _of_cluster(tree: object) -> Needs:
    return Needs(CHANGE, ("ALTER",))


def _query(tree: s.QueryStatement) -> Needs:
    return Needs(QUERY, ("DESCRIBE",), reads=sources_of(tree.query))


def _show(tree: s.Show) -> Needs:
    if tree.extended:
        return Needs(READ, ("DESCRIBE", "ALTER"), tells_all=True)
    if tree.what == "PROPERTIES":
        return Needs(READ, ("DESCRIBE", "ALTER"))
    return Needs(READ, ("DESCRIBE",))


def _describe(tree: s.Describe) -> Needs:
    if tree.what in ("FUNCTION", "CONNECTOR"):
        return Needs(READ, ("DESCRIBE",))
    named = () if tree.name is None else (tree.name,)
    if tree.extended or not named:
        return Needs(READ, ("DESCRIBE", "ALTER"), shows=named, tells_all=True)
    return Needs(READ, ("DESCRIBE",), shows=named)


def _explain(tree: s.Explain) -> Needs:
    if tree.statement is None:
        return Needs(READ, ("DESCRIBE",), query_id=tree.query_id or "")
    inner = needs_of(tree.statement)
    if inner.kind == OTHER:
        return inner
    return replace(inner, kind=READ, cluster=tuple(dict.fromkeys(("DESCRIBE", *inner.cluster))))


def _control(tree: s.Control) -> Needs:
    return Needs(CHANGE, ("ALTER",))


def _set(tree: s.SetProperty) -> Needs:
    if tree.system:
        return Needs(CHANGE, ("ALTER", "ALTER_CONFIGS"), settings=((tree.name, tree.value),))
    return _of_session(tree)


def _print(tree: s.PrintTopic) -> Needs:
    return Needs(OTHER, because="records of a topic are on its own page")


def _of_session(tree: object) -> Needs:
    return Needs(OTHER, because="a page has no session of its own: it is for `ottla sql`")


def _of_tests(tree: object) -> Needs:
    return Needs(OTHER, because="it is for scripts of tests")


KINDS: Final[Mapping[type, Callable[[Any], Needs]]] = {
    s.CreateSource: _create_source,
    s.CreateAs: _create_as,
    s.InsertInto: _insert_into,
    s.InsertValues: _insert_values,
    s.DropSource: _drop_source,
    s.AlterSource: _alter_source,
    s.CreateType: _of_cluster,
    s.DropType: _of_cluster,
    s.CreateConnector: _create_connector,
    s.DropConnector: _of_cluster,
    s.QueryStatement: _query,
    s.Show: _show,
    s.Describe: _describe,
    s.Explain: _explain,
    s.PrintTopic: _print,
    s.Control: _control,
    s.SetProperty: _set,
    s.UnsetProperty: _of_session,
    s.DefineVariable: _of_session,
    s.UndefineVariable: _of_session,
    s.AssertTopic: _of_cluster,
    s.AssertSchema: _of_cluster,
    s.AssertValues: _of_tests,
    s.AssertSource: _of_tests,
    s.RunScript: _of_tests,
}
"""What each kind of statement needs. A kind that is not here is for nobody."""


def _topic(properties: s.Properties) -> str | None:
    """Return the topic that WITH names, None where it names none; raises SqlError where that cannot be told."""
    found = [value for name, value in properties if name.strip("'\"`").upper() == TOPIC]
    if not found:
        return None
    if len(found) > 1 or not isinstance(found[0], e.StringLiteral):
        raise SqlError(f"{TOPIC} is one text")
    return found[0].value


def _literal(value: e.Literal) -> str:
    return str(getattr(value, "value", ""))
