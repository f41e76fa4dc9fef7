"""A command as a record of the command topic: its key names what it is about, its value is JSON.

The key is `type/entity/action` as a JSON text; the value has ksqlDB's fields: `statement`, `streamsProperties`,
`originalProperties`, `plan` (the names that the statement was given) and `version`. `rules` are Ottla's own: those that the
statement was taken under.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ottla.sql import rules
from ottla.sql.errors import SqlError

COMMAND_VERSION = 1
"""Of the records that are written here; those of a later one are not read."""
_PARTS = 3


class UnreadableCommandError(SqlError):
    """A record of the command topic that is no command, or one of a later version."""


@dataclass(frozen=True, slots=True, order=True)
class CommandId:
    """What a command is about: `stream/ORDERS/create`."""

    type: str
    entity: str
    action: str

    def __str__(self) -> str:
        return f"{self.type}/{self.entity}/{self.action}"

    @classmethod
    def of(cls, text: str) -> CommandId:
        """Read what `str` gives; raises UnreadableCommandError."""
        type_, _, rest = text.partition("/")
        entity, _, action = rest.rpartition("/")
        if not (type_ and entity and action):
            raise UnreadableCommandError(f"{text!r} is no command's id: type/entity/action")
        return cls(type_, entity, action)


@dataclass(frozen=True, slots=True)
class Command:
    """A statement that changes the server, with the properties that it was given and the query id that it got."""

    id: CommandId
    statement: str
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What SET and the request said, on top of the server's own settings."""
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The server's settings that give a statement its meaning, as they were: a replay must not read today's."""
    query_id: str | None = None
    version: int = COMMAND_VERSION
    rules: int = rules.LATEST
    """What the statement was taken under (`ottla.sql.rules`)."""

    def key(self) -> bytes:
        """The record's key."""
        return json.dumps(str(self.id)).encode()

    def value(self) -> bytes:
        """The record's value."""
        found = {
            "statement": self.statement,
            "streamsProperties": dict(self.properties),
            "originalProperties": dict(self.settings),
            "plan": None if self.query_id is None else {"queryId": self.query_id},
            "version": self.version,
            "rules": self.rules,
        }
        return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Command:
        """Read a record; raises UnreadableCommandError that says what is wrong with it."""
        try:
            name = json.loads(key or b"null")
            found = json.loads(value or b"null")
        except (ValueError, RecursionError) as error:
            raise UnreadableCommandError(f"it is no JSON: {error}") from None
        if not isinstance(name, str) or not isinstance(found, dict) or not isinstance(found.get("statement"), str):
            raise UnreadableCommandError("it has no text as its key and no statement in its value")
        version = found.get("version", COMMAND_VERSION)
        if not isinstance(version, int) or version > COMMAND_VERSION:
            raise UnreadableCommandError(f"its version is {version}; this server reads up to {COMMAND_VERSION}")
        held = found.get("rules", rules.FIRST)
        plan = found.get("plan")
        query_id = plan.get("queryId") if isinstance(plan, dict) else None
        return cls(
            CommandId.of(name),
            found["statement"],
            _texts(found.get("streamsProperties")),
            _texts(found.get("originalProperties")),
            query_id if isinstance(query_id, str) else None,
            version,
            held if isinstance(held, int) else rules.FIRST,
        )


def _texts(found: object) -> Mapping[str, str]:
    given = found if isinstance(found, dict) else {}
    return MappingProxyType({str(name): str(value) for name, value in given.items()})
