"""A statement looked at before it becomes a command: what it is about, whether it may be, and which topic it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.sql.catalogue import Source
from ottla.sql.commands.applying import Applied, carry_out
from ottla.sql.commands.command import Command, CommandId
from ottla.sql.commands.effects import BeginQuery
from ottla.sql.commands.replacing import REPLACES
from ottla.sql.commands.state import ServerState
from ottla.sql.definitions import DEFAULT_KEY_FORMAT, DEFAULT_VALUE_FORMAT, WRAP_SINGLE_VALUES
from ottla.sql.errors import SqlError
from ottla.sql.planning import NESTED_NULLS, PRESERVE_NULLS, THROWS_ON_INVALID_TIMES, TOPIC_PREFIX
from ottla.sql.tree import statements as s
from ottla.sql.tree.statement_text import statement_text
from ottla.sql.types import backticked

MEANING = (
    *(DEFAULT_KEY_FORMAT, DEFAULT_VALUE_FORMAT, WRAP_SINGLE_VALUES, REPLACES),
    *(PRESERVE_NULLS, NESTED_NULLS, THROWS_ON_INVALID_TIMES, TOPIC_PREFIX),
)
"""Settings that give a statement its meaning: a command keeps them as they were."""
FUNCTIONS = "ksql.functions."
"""What settings of functions begin with: they give statements a meaning, too."""
COMPACT = "compact"


@dataclass(frozen=True, slots=True)
class TopicWish:
    """A topic that a statement needs: made where it is missing. None leaves a number to the source, or the brokers."""

    name: str
    partitions: int | None
    replicas: int | None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a statement: a command to write with what it will lead to, or a warning and nothing."""

    command: Command | None
    expected: Applied | None = None
    warning: str | None = None


Commanding = (
    s.CreateSource | s.CreateAs | s.InsertInto | s.DropSource | s.AlterSource | s.CreateType | s.DropType | s.Control
)


def is_command(statement: s.Statement) -> bool:
    """Whether a statement changes the server, and so has to be written to its log."""
    return isinstance(statement, Commanding) or (isinstance(statement, s.SetProperty) and statement.system)


def decide(
    statement: s.Statement,
    text: str,
    state: ServerState,
    *,
    properties: Mapping[str, str],
    settings: Mapping[str, str],
    number: int,
) -> Decision:
    """What command a statement is. Raises SqlError where it is refused.

    `number` is the offset that the command will have: a new query is named after it. `properties` are the session's,
    `settings` the server's.
    """
    warning = _nothing_to_do(statement, state)
    if warning is not None:
        return Decision(None, None, warning)
    meaning = {name: value for name, value in settings.items() if name in MEANING or name.startswith(FUNCTIONS)}
    command = Command(command_id(statement), text, dict(properties), meaning)
    expected = carry_out(statement, command, state, number)
    command = replace(command, statement=_whole(statement, text, expected), query_id=expected.query_id)
    return Decision(command, expected)


def _whole(statement: s.Statement, text: str, expected: Applied) -> str:
    """The statement with the columns that the registry has given it: a replay must not see a newer schema's.

    Those of a schema whose id it names stay there: an id's schema never changes.
    """
    if not isinstance(statement, s.CreateSource):
        return text
    names = {name.upper().strip("'") for name, _ in statement.properties}
    schema = expected.state.catalogue.source(statement.name).schema
    if len(schema.columns) == len(statement.columns) or names & {"KEY_SCHEMA_ID", "VALUE_SCHEMA_ID"}:
        return text
    key: s.ColumnRole = "KEY" if statement.kind == "STREAM" else "PRIMARY KEY"
    columns = tuple(
        s.ColumnDefinition(each.name, each.type, key if each.place == "key" else "VALUE")
        if each.place != "headers"
        else next(given for given in statement.columns if given.name == each.name)
        for each in schema.columns
    )
    return f"{statement_text(replace(statement, columns=columns))};"


def _nothing_to_do(statement: s.Statement, state: ServerState) -> str | None:
    """The warning for IF [NOT] EXISTS where there is nothing to do."""
    match statement:
        case s.CreateSource(if_not_exists=True) | s.CreateAs(if_not_exists=True):
            known = state.catalogue.sources.get(statement.name)
            if known is not None:
                return (
                    f"Cannot add {statement.kind.lower()} {backticked(statement.name)}: "
                    f"A {known.kind.lower()} with the same name already exists."
                )
        case s.CreateType(name=name, if_not_exists=True) if name in state.catalogue.types:
            return f"{name} is already registered with type {state.catalogue.types[name]}"
        case s.DropSource(name=name, if_exists=True) if not (
            name in state.catalogue.sources or state.is_left_out(backticked(name))
        ):
            return f"Source {backticked(name)} does not exist."
        case s.DropType(name=name, if_exists=True) if not (
            name in state.catalogue.types or state.is_left_out(f"type {name}")
        ):
            return f"Type '{name}' does not exist"
    return None


def command_id(statement: s.Statement) -> CommandId:
    """What a statement is about, as its command's key."""
    match statement:
        case s.CreateSource(kind=kind, name=name) | s.CreateAs(kind=kind, name=name):
            return CommandId(kind.lower(), backticked(name), "create")
        case s.InsertInto(name=name):
            return CommandId("stream", backticked(name), "insert")
        case s.DropSource(kind=kind, name=name):
            return CommandId(kind.lower(), backticked(name), "drop")
        case s.AlterSource(kind=kind, name=name):
            return CommandId(kind.lower(), backticked(name), "alter")
        case s.CreateType(name=name):
            return CommandId("type", name, "create")
        case s.DropType(name=name):
            return CommandId("type", name, "drop")
        case s.Control(action, query_id):
            return CommandId(action.lower(), query_id or "ALL", "execute")
        case s.SetProperty(name=name):
            return CommandId("cluster", name, "alter")
        case _:
            raise SqlError(f"{type(statement).__name__} is no command.")


def topic_wish(statement: s.Statement, decision: Decision) -> TopicWish | None:
    """The topic that a statement needs, None where it needs none; raises SqlError for numbers that are none."""
    if not isinstance(statement, s.CreateSource | s.CreateAs) or decision.expected is None:
        return None
    sink = decision.expected.state.catalogue.source(statement.name)
    given = {name.upper().strip("'"): value for name, value in statement.properties}
    configs = _configs(given, sink, is_result=any(isinstance(each, BeginQuery) for each in decision.expected.effects))
    return TopicWish(sink.topic, _number(given, "PARTITIONS"), _number(given, "REPLICAS"), configs)


def _configs(given: Mapping[str, object], sink: Source, *, is_result: bool) -> Mapping[str, str]:
    configs: dict[str, str] = {}
    if is_result and sink.kind == "TABLE":
        configs["cleanup.policy"] = COMPACT
    policy = given.get("CLEANUP_POLICY")
    if policy is not None:
        configs["cleanup.policy"] = str(getattr(policy, "value", "")).lower()
    retention = _number(given, "RETENTION_MS")
    if retention is not None:
        configs["retention.ms"] = str(retention)
    return configs


def _number(given: Mapping[str, object], name: str) -> int | None:
    literal = given.get(name)
    if literal is None:
        return None
    text = str(getattr(literal, "value", ""))
    if not text.isdecimal() or int(text) < 1:
        raise SqlError(f"Invalid value {text} for configuration {name}: Value must be at least 1")
    return int(text)
