"""Statements of `/ksql` carried out one after the other: each gives an answer with its `@type`, or ends the request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base import ErrorCode, KafkaError
from ottla.sql import SqlError, StatementText, split_statements
from ottla.sql.answers import inserted
from ottla.sql.commands import entities, is_command
from ottla.sql.commands.functions_told import function_entity, functions_entity
from ottla.sql.tree import statements as s
from ottla.sql_server.command_topic import CommandTimeoutError
from ottla.sql_server.connectors import Connectors
from ottla.sql_server.descriptions import Descriptions
from ottla.sql_server.errors import (
    BAD_REQUEST,
    BAD_STATEMENT,
    COMMAND_TIMEOUT,
    FORBIDDEN_KAFKA,
    QUERY_ENDPOINT,
    SERVER_ERROR,
    StatementError,
)
from ottla.sql_server.session_properties import check_property, is_allowed, put, unset, warnings_of

if TYPE_CHECKING:
    from ottla.sql_server.server import SqlServer

__all__ = ["Asked", "Statements"]

Entity = dict[str, Any]
FORBIDDEN = frozenset(
    {
        *(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        *(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    }
)


@dataclass(slots=True)
class Asked:
    """A request's session: what SET and DEFINE have said in it."""

    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


class Statements:
    """Carries statements out."""

    def __init__(self, server: SqlServer, connectors: Connectors) -> None:
        self._server = server
        self._connectors = connectors
        self._descriptions = Descriptions(server)

    async def execute(self, text: str, asked: Asked) -> list[Entity]:
        """Return the answers to a text's statements; raises StatementError with those to the ones before it."""
        try:
            statements = await self._server.turns.read(text, lambda: split_statements(text))
        except SqlError as error:
            raise StatementError(BAD_STATEMENT, str(error), text) from None
        found: list[Entity] = []
        for each in statements:
            await asyncio.sleep(0)  # what needs no answer from elsewhere lets others have their turn, too
            try:
                answer = await self.one(each, asked)
            except StatementError as error:
                error.entities, error.statement = found, error.statement or each.text
                raise
            if answer is not None:
                found.append(answer)
        return found

    async def one(self, given: StatementText, asked: Asked) -> Entity | None:
        """Return the answer to a statement, None for one of the session; raises StatementError."""
        text = given.text
        try:
            types = self._server.state.catalogue.types
            shown = await self._server.turns.read(text, lambda: given.shown(asked.variables))
            statement = await self._server.turns.read(text, lambda: given.parse(types, asked.variables))
            return await self._answer(statement, shown, asked)
        except CommandTimeoutError as error:
            raise StatementError(COMMAND_TIMEOUT, str(error), text) from error
        except SqlError as error:
            raise StatementError(BAD_STATEMENT, str(error), text) from error
        except KafkaError as error:
            code = FORBIDDEN_KAFKA if error.code in FORBIDDEN else SERVER_ERROR
            if error.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
                code = BAD_STATEMENT
            raise StatementError(code, str(error), text) from error

    async def _answer(self, statement: s.Statement, text: str, asked: Asked) -> Entity | None:
        match statement:
            case s.SetProperty(name, value, system=False):
                put(asked.properties, name, value)
                return None
            case s.UnsetProperty(name):
                unset(asked.properties, name)
                return None
            case s.DefineVariable(name, value):
                asked.variables[name] = value
                return None
            case s.UndefineVariable(name):
                asked.variables.pop(name, None)
                return None
            case s.InsertValues():
                catalogue = self._server.state.catalogue
                await self._server.inserting.write(lambda: inserted(statement, catalogue))
                return None
            case s.QueryStatement() | s.PrintTopic():
                what = "PRINT" if isinstance(statement, s.PrintTopic) else "SELECT"
                raise StatementError(
                    QUERY_ENDPOINT,
                    f"The following statement types should be issued to the websocket endpoint '/query': {what}",
                    text,
                )
            case s.RunScript():
                raise StatementError(
                    BAD_STATEMENT, "RUN SCRIPT is a command of the command line, not of the server", text
                )
            case s.Control(action="TERMINATE", query_id=str(id_)) if self._server.pushing.end(id_):
                return entities.entity("terminate_query", text, queryId=id_, wasTerminated=True)
            case _ if is_command(statement):
                return await self._command(statement, text, asked.properties)
            case s.CreateConnector() | s.DropConnector():
                return await self._connectors.change(statement, text)
            case _:
                return await self._told(statement, text, asked)

    async def _command(self, statement: s.Statement, text: str, properties: Mapping[str, str]) -> Entity:
        if isinstance(statement, s.SetProperty):
            check_property(statement.name, statement.value)
        decision, offset = await self._server.write(statement, text, properties)
        if decision.command is None:
            return entities.warning_entity(text, decision.warning or "")
        expected = decision.expected
        assert expected is not None, text
        told = entities.current_status(text, decision.command, offset, "SUCCESS", expected.message)
        named = [statement.name] if isinstance(statement, s.SetProperty) else properties
        told["warnings"] = [{"message": each} for each in warnings_of(named)]
        return told

    async def _told(self, statement: s.Statement, text: str, asked: Asked) -> Entity:
        """The answer to a question."""
        told = self._descriptions
        match statement:
            case s.Show(what="STREAMS", extended=extended) | s.Describe(what="STREAMS", extended=extended):
                return await told.sources("STREAM", text, extended=extended or isinstance(statement, s.Describe))
            case s.Show(what="TABLES", extended=extended) | s.Describe(what="TABLES", extended=extended):
                return await told.sources("TABLE", text, extended=extended or isinstance(statement, s.Describe))
            case s.Show(what="QUERIES", extended=extended):
                return await told.queries(text, extended=extended)
            case s.Show(what="TOPICS" | "ALL TOPICS" as what, extended=extended):
                return await told.topics(text, every=what == "ALL TOPICS", extended=extended)
            case s.Show(what="FUNCTIONS"):
                return functions_entity(text)
            case s.Show(what="TYPES"):
                return entities.types_entity(text, self._server.state)
            case s.Show(what="VARIABLES"):
                return entities.variables_entity(text, asked.variables)
            case s.Show(what="PROPERTIES"):
                server = {**self._server.settings.told(), **self._server.state.system}
                return entities.properties_entity(text, server, asked.properties, is_editable=is_allowed)
            case s.Show(what=what):
                return await self._connectors.listed(what, text)
            case s.Describe(what="FUNCTION", name=str(name)):
                return function_entity(text, name)
            case s.Describe(what="CONNECTOR", name=str(name)):
                return await self._connectors.described(name, text, told.over)
            case s.Describe(name=str(name), extended=extended):
                return await told.source(name, text, extended=extended)
            case s.Explain():
                return await told.explained(statement, text, asked.properties)
            case s.AssertTopic():
                return await told.asserted_topic(statement, text)
            case s.AssertSchema():
                return await self._connectors.asserted_schema(statement, text)
            case _:
                raise StatementError(BAD_REQUEST, f"Do not know how to answer {type(statement).__name__}.", text)
