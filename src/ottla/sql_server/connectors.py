"""Connectors by SQL, through Connect's REST: CREATE, DROP, LIST, DESCRIBE; and ASSERT SCHEMA, through the registry's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from ottla.sql.commands.entities import Entity, entity, warning_entity
from ottla.sql.tree import expressions as e
from ottla.sql.tree import statements as s
from ottla.sql_server.errors import BAD_STATEMENT, FAILED_ASSERTION, SERVER_ERROR, StatementError
from ottla.sql_server.outside import Outside, OutsideError, named

__all__ = ["ASSERT_SECONDS", "Connectors", "literal_text"]

ASSERT_SECONDS = 1.0
"""How long an assertion waits where no TIMEOUT says it."""
LOOK_SECONDS = 0.1
CONFLICT, MISSING = 409, 404
Over = Callable[[Collection[str]], Awaitable[list[Entity]]]


def literal_text(literal: e.Literal) -> str:
    """A literal as a property's value."""
    if isinstance(literal, e.NullLiteral):
        return ""
    if isinstance(literal, e.BooleanLiteral):
        return str(literal.value).lower()
    return str(literal.value)


class Connectors:
    """Asks Connect, and the registry."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def change(self, statement: s.CreateConnector | s.DropConnector, text: str) -> Entity:
        """CREATE or DROP CONNECTOR; raises StatementError in Connect's words."""
        try:
            if isinstance(statement, s.DropConnector):
                await self._outside.connect("DELETE", f"/connectors/{named(statement.name)}")
                return entity("drop_connector", text, connectorName=statement.name)
            config = {name.strip("'\"`"): literal_text(value) for name, value in statement.properties}
            body = {"name": statement.name, "config": {**config, "name": statement.name}}
            info = await self._outside.connect("POST", "/connectors", body)
            return entity("connector_info", text, info=info)
        except OutsideError as error:
            return self._excused(statement, error, text)

    def _excused(self, statement: s.CreateConnector | s.DropConnector, error: OutsideError, text: str) -> Entity:
        """The warning where IF [NOT] EXISTS allows what Connect refuses; raises StatementError elsewhere."""
        if isinstance(statement, s.CreateConnector) and statement.if_not_exists and error.status == CONFLICT:
            return warning_entity(text, f"Connector {statement.name} already exists")
        if isinstance(statement, s.DropConnector) and statement.if_exists and error.status == MISSING:
            return warning_entity(text, f"Connector '{statement.name}' does not exist.")
        what = "create" if isinstance(statement, s.CreateConnector) else "drop"
        raise _refused(error, f"Failed to {what} connector {statement.name}", text) from error

    async def listed(self, what: str, text: str) -> Entity:
        """LIST [SOURCE|SINK] CONNECTORS, and CONNECTOR PLUGINS."""
        try:
            if what == "CONNECTOR PLUGINS":
                plugins = await self._outside.connect("GET", "/connector-plugins")
                found = [
                    {"className": each.get("class"), "type": each.get("type"), "version": each.get("version")}
                    for each in plugins
                ]
                return entity("connector_plugins_list", text, connectorsPlugins=found)
            every = await self._outside.connect("GET", "/connectors?expand=status&expand=info")
        except OutsideError as error:
            raise _refused(error, f"Failed to list {what.lower()}", text) from error
        wanted = what.partition(" ")[0].lower() if " " in what else None
        entries = [_entry(name, each) for name, each in sorted(every.items())]
        return entity("connector_list", text, connectors=[each for each in entries if wanted in (None, each["type"])])

    async def described(self, name: str, text: str, over: Over) -> Entity:
        """DESCRIBE CONNECTOR; `over` describes the streams and tables over its topics."""
        try:
            info = await self._outside.connect("GET", f"/connectors/{named(name)}")
            status = await self._outside.connect("GET", f"/connectors/{named(name)}/status")
            topics = await self._outside.connect("GET", f"/connectors/{named(name)}/topics")
        except OutsideError as error:
            raise _refused(error, f"Failed to query connector {name}", text) from error
        written = topics.get(name, {}).get("topics", [])
        return entity(
            "connector_description",
            text,
            connectorClass=info["config"].get("connector.class", ""),
            status=status,
            sources=await over(written),
            topics=written,
        )

    async def asserted_schema(self, statement: s.AssertSchema, text: str) -> Entity:
        """ASSERT [NOT EXISTS] SCHEMA; raises StatementError where it does not hold in time."""
        if not self._outside.has_registry:
            raise StatementError(
                42801, "Schema registry is not configured: set ksql.schema.registry.url of this server.", text
            )
        id_ = None if statement.id is None else literal_text(statement.id)
        path = f"/schemas/ids/{id_}" if statement.subject is None else f"/subjects/{named(statement.subject)}/versions"
        seconds = ASSERT_SECONDS if statement.timeout is None else statement.timeout.ms / 1000
        until = time.monotonic() + seconds
        while await self._has_schema(path, statement, id_, text) is not statement.exists:
            if time.monotonic() >= until:
                words = "does not exist" if statement.exists else "exists"
                what = f"subject name {statement.subject}" if statement.subject is not None else f"id {id_}"
                raise StatementError(FAILED_ASSERTION, f"Schema with {what} {words}.", text)
            await asyncio.sleep(LOOK_SECONDS)
        number = int(id_) if id_ is not None and id_.isdecimal() else None
        return entity("assert_schema", text, subject=statement.subject, id=number, exists=statement.exists)

    async def _has_schema(self, path: str, statement: s.AssertSchema, id_: str | None, text: str) -> bool:
        try:
            found: Any = await self._outside.registry(path)
            if statement.subject is None or id_ is None:
                return bool(found)
            versions = await self._outside.registry(f"/schemas/ids/{id_}/versions")
        except OutsideError as error:
            if error.status == MISSING:
                return False
            raise StatementError(SERVER_ERROR, f"Cannot check schema existence: {error}", text) from error
        return any(each.get("subject") == statement.subject for each in versions)


def _entry(name: str, found: dict[str, Any]) -> Entity:
    status, info = found.get("status", {}), found.get("info", {})
    tasks = status.get("tasks", [])
    running = sum(1 for each in tasks if each.get("state") == "RUNNING")
    state = status.get("connector", {}).get("state", "UNKNOWN")
    return {
        "name": name,
        "type": info.get("type", "unknown"),
        "className": info.get("config", {}).get("connector.class", ""),
        "state": f"{state} ({running}/{len(tasks)} tasks RUNNING)",
    }


def _refused(error: OutsideError, begin: str, text: str) -> StatementError:
    code = BAD_STATEMENT if 400 <= error.status < 500 else SERVER_ERROR
    return StatementError(code, f"{begin}: {error}", text)
