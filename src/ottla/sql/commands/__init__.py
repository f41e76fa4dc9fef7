"""A server's command log as a fold: statements become commands, and commands replayed give the same server.

`decide` looks at a statement and says what command it is, or refuses it; `apply` takes a command in and says what is to be
done outside (queries begun and ended, topics deleted). `entities` are the answers about what the fold holds.
"""

from __future__ import annotations

from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.commands.applying import Applied, apply, carry_out, leave_out
from ottla.sql.commands.command import COMMAND_VERSION, Command, CommandId, UnreadableCommandError
from ottla.sql.commands.deciding import Decision, TopicWish, decide, is_command, topic_wish
from ottla.sql.commands.effects import BeginQuery, DeleteTopic, Effect, EndQuery, PauseQuery, ResumeQuery
from ottla.sql.commands.state import LeftOut, PersistentQuery, ServerState
from ottla.sql.formats import FORMATS

__all__ = [
    "COMMAND_VERSION",
    "FORMATS",
    "Applied",
    "BeginQuery",
    "Catalogue",
    "Command",
    "CommandId",
    "Decision",
    "DeleteTopic",
    "Effect",
    "EndQuery",
    "LeftOut",
    "PauseQuery",
    "PersistentQuery",
    "ResumeQuery",
    "ServerState",
    "Source",
    "TopicWish",
    "UnreadableCommandError",
    "apply",
    "carry_out",
    "decide",
    "is_command",
    "leave_out",
    "topic_wish",
]
