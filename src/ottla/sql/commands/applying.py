"""A command taken in: the state after it, what is to be done outside, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.sql import rules
from ottla.sql.catalogue import Source
from ottla.sql.commands.command import Command
from ottla.sql.commands.effects import BeginQuery, DeleteTopic, Effect, EndQuery, PauseQuery, ResumeQuery
from ottla.sql.commands.replacing import REPLACES, check_replacement
from ottla.sql.commands.state import LeftOut, PersistentQuery, ServerState
from ottla.sql.definitions import define
from ottla.sql.errors import SqlError
from ottla.sql.parser.texts import parse_statement
from ottla.sql.plan import QueryPlan
from ottla.sql.planning import plan_create_as, plan_insert
from ottla.sql.registration import with_registered
from ottla.sql.tree import statements as s
from ottla.sql.types import backticked

NO_NUMBER = 0
"""What a query's name is made with where the command says the whole of it."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a command leads to."""

    state: ServerState
    message: str
    effects: tuple[Effect, ...] = ()
    query_id: str | None = None


def apply(state: ServerState, command: Command) -> Applied:
    """Take a command in, under its rules. Raises SqlError for one that means nothing here: it changes nothing then."""
    with rules.under(command.rules):
        statement = parse_statement(command.statement, state.catalogue.types)
        return carry_out(statement, command, state, NO_NUMBER)


_SETTLING = s.CreateSource | s.CreateAs | s.DropSource | s.CreateType | s.DropType
"""Behind these it does not matter any more what of the same name could not be carried out before."""


def leave_out(state: ServerState, command: Command, words: str) -> ServerState:
    """The state after a command that cannot be carried out, which is told in these words."""
    return state.leaving_out(_about(command), LeftOut(words, command.query_id))


def _about(command: Command) -> str:
    """What a command is about, as `left_out` knows it: a query's id, else a stream, table or type."""
    id_ = command.id
    if id_.action == "insert":
        return command.query_id or str(id_)
    return f"type {id_.entity}" if id_.type == "type" else id_.entity


def carry_out(statement: s.Statement, command: Command, state: ServerState, number: int) -> Applied:
    """The state after a statement; `number` names a new query, unless the command names it."""
    found = _carried_out(statement, command, state, number)
    if isinstance(statement, _SETTLING):
        return replace(found, state=found.state.without_left_out([_about(command)]))
    return found


def _carried_out(statement: s.Statement, command: Command, state: ServerState, number: int) -> Applied:
    settings = {**command.settings, **state.settings_under(command.properties)}
    match statement:
        case s.CreateSource():
            return _create(statement, command, state, settings)
        case s.CreateAs():
            return _create_as(statement, command, state, settings, number)
        case s.InsertInto():
            return _insert(statement, command, state, settings, number)
        case s.DropSource(name=name) if _is_left_out(backticked(name), name in state.catalogue.sources, state):
            return Applied(
                state, f"Source {backticked(name)}, which could not be made again, was dropped; its topic is left."
            )
        case s.DropSource():
            return _drop(statement, state, settings)
        case s.AlterSource(name=name):
            altered = replace(state, catalogue=define(statement, state.catalogue, settings))
            return Applied(altered.with_statement(name, command.statement), "Altered source")
        case s.CreateType(name, type_):
            found = replace(state, catalogue=define(statement, state.catalogue, settings))
            return Applied(found, f"Registered custom type with name '{name}' and SQL type {type_}")
        case s.DropType(name) if _is_left_out(f"type {name}", name in state.catalogue.types, state):
            return Applied(state, f"Dropped type '{name}'")
        case s.DropType(name):
            found = replace(state, catalogue=define(statement, state.catalogue, settings))
            return Applied(found, f"Dropped type '{name}'")
        case s.Control(action, query_id):
            return _control(action, query_id, state)
        case s.SetProperty(name, value, system=True):
            return Applied(state.with_system(name, value), f"System property {name} was set to {value}.")
        case _:
            raise SqlError(f"{type(statement).__name__} is no command.")


def _is_left_out(about: str, is_there: bool, state: ServerState) -> bool:
    """Whether there is nothing of what a statement ends but the command that could not make it."""
    return not is_there and state.is_left_out(about)


def _create(statement: s.CreateSource, command: Command, state: ServerState, settings: Mapping[str, str]) -> Applied:
    known = state.catalogue.sources.get(statement.name)
    catalogue = define(statement, state.catalogue, settings)
    made = catalogue.source(statement.name)
    if known is not None and statement.or_replace:
        check_replacement(known, made)
    found = replace(state, catalogue=catalogue)
    if known is not made:
        found = found.with_statement(statement.name, command.statement)
    return Applied(found, f"{statement.kind.capitalize()} created")


def _create_as(
    statement: s.CreateAs, command: Command, state: ServerState, settings: Mapping[str, str], number: int
) -> Applied:
    plan = plan_create_as(statement, state.catalogue, settings, number)
    known = state.catalogue.sources.get(statement.name)
    before = None if known is None or known.made_by is None else state.queries.get(known.made_by)
    if before is not None and settings.get(REPLACES, "true").strip().lower() == "false":
        kind = statement.kind.lower()
        raise SqlError(f"Cannot add {kind} '{statement.name}': A {kind} with the same name already exists")
    id_ = command.query_id or (plan.id if before is None else before.id)
    plan = _named(plan, id_)
    if known is not None:
        check_replacement(known, plan.sink)
    plan = _registered(plan, state)
    given = state.settings_under(command.properties)
    query = PersistentQuery(id_, command.statement, plan, statement.query, plan.sink, given)
    if before is not None and before.sources != query.sources:
        raise SqlError(
            f"Cannot upgrade data source: DataSource '{statement.name}' reads {', '.join(before.sources)}, and a query "
            f"that replaces it cannot read {', '.join(query.sources)}."
        )
    found = replace(state, catalogue=state.catalogue.with_source(plan.sink))
    found = found.with_query(query).with_statement(statement.name, command.statement)
    effects = (BeginQuery(query, replaces=before is not None),)
    return Applied(found, f"Created query with ID {id_}", effects, id_)


def _insert(
    statement: s.InsertInto, command: Command, state: ServerState, settings: Mapping[str, str], number: int
) -> Applied:
    plan = plan_insert(statement, state.catalogue, number, settings)
    id_ = command.query_id or _chosen_id(statement) or plan.id
    if id_ in state.queries:
        raise SqlError(f"Query ID '{id_}' already exists.")
    plan = _registered(_named(plan, id_), state, inserts=True)
    given = state.settings_under(command.properties)
    query = PersistentQuery(id_, command.statement, plan, statement.query, plan.sink, given, makes_sink=False)
    return Applied(state.with_query(query), f"Created query with ID {id_}", (BeginQuery(query),), id_)


def _chosen_id(statement: s.InsertInto) -> str | None:
    """The id that WITH (QUERY_ID = '…') names."""
    for name, value in statement.properties:
        if name.upper().strip("'") == "QUERY_ID":
            text = str(getattr(value, "value", ""))
            if not text or not text.replace("_", "").isalnum():
                raise SqlError(f"Query IDs may contain only alphanumeric characters and '_'. Got: '{text}'")
            return text.upper()
    return None


def _registered(plan: QueryPlan, state: ServerState, *, inserts: bool = False) -> QueryPlan:
    """The plan with its sink's schemas in the registry."""
    sink = with_registered(plan.sink, state.catalogue.registry, anew=True, inserts=inserts)
    return replace(plan, sink=sink)


def _named(plan: QueryPlan, id_: str) -> QueryPlan:
    """The plan under an id, which its sink tells, too, where the query made that."""
    sink = plan.sink
    made_by = id_ if sink.made_by == plan.id else sink.made_by
    return replace(plan, id=id_, sink=replace(sink, made_by=made_by))


def _drop(statement: s.DropSource, state: ServerState, settings: Mapping[str, str]) -> Applied:
    known = state.catalogue.sources.get(statement.name)
    catalogue = define(statement, state.catalogue, settings)
    if known is None:
        return Applied(state, f"Source {backticked(statement.name)} does not exist.")
    own = None if known.made_by is None else state.queries.get(known.made_by)
    _refuse_used(known, state, own)
    found = replace(state.without_source(known.name), catalogue=catalogue)
    effects: list[Effect] = []
    if own is not None:
        found = found.without_queries((own.id,))
        effects.append(EndQuery(own))
    if statement.delete_topic:
        effects.append(DeleteTopic(known.topic))
    return Applied(found, f"Source {backticked(known.name)} (topic: {known.topic}) was dropped.", tuple(effects))


def _refuse_used(source: Source, state: ServerState, own: PersistentQuery | None) -> None:
    """Raise SqlError where queries or other sources need a source."""
    own_id = None if own is None else own.id
    readers = [each for each in state.readers(source.name) if each != own_id]
    writers = [each for each in state.writers(source.name) if each != own_id]
    made = sorted({state.queries[each].sink.name for each in readers if state.queries[each].makes_sink})
    if made:
        raise SqlError(
            f"Cannot drop {source.name}.\n"
            f"The following streams and/or tables read from this source: [{', '.join(made)}].\n"
            f"You need to drop them before dropping {source.name}."
        )
    if readers or writers:
        raise SqlError(
            f"Cannot drop {source.name}.\n"
            f"The following queries read from this source: [{', '.join(readers)}].\n"
            f"The following queries write into this source: [{', '.join(writers)}].\n"
            f"You need to terminate them before dropping {source.name}."
        )


def _control(action: str, query_id: str | None, state: ServerState) -> Applied:
    if query_id is None:
        wanted = list(state.queries.values())
    elif query_id in state.queries or query_id not in {each.query_id for each in state.left_out.values()}:
        wanted = [state.query(query_id)]
    else:
        wanted = []  # what was to make it could not be carried out
    if action == "TERMINATE":
        effects = tuple(EndQuery(each) for each in wanted)
        found = state.without_left_out([query_id] if query_id is not None else _queries_left_out(state))
        return Applied(found.without_queries(each.id for each in wanted), "Query terminated.", effects)
    is_paused = action == "PAUSE"
    found = state
    done: list[Effect] = []
    for each in wanted:
        if each.is_paused is not is_paused:
            found = found.with_query(replace(each, is_paused=is_paused))
            done.append(PauseQuery(each.id) if is_paused else ResumeQuery(each.id))
    return Applied(found, "Query paused." if is_paused else "Query resumed.", tuple(done))


def _queries_left_out(state: ServerState) -> list[str]:
    """The ids of queries of INSERT INTO that could not be made; those of others are missing with their stream or table."""
    return [about for about, each in state.left_out.items() if about == each.query_id]
