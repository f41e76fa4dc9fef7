"""Statements of SQL that change something, by a SQL server's REST interface: created, dropped, ended, inserted."""

from __future__ import annotations

import time

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, command, text
from ottla.admin.errors import AdminError

__all__ = ["SQL"]

DROPS = ("DROP", "TERMINATE")
LAST_SECONDS_MAX = 30.0


def _statement(reach: Reach, arguments: Arguments) -> ActionPlan:
    server = reach.sql()
    statement = text(arguments, "statement").strip()
    first = statement.split(None, 1)[0].upper()
    effects = {
        "CREATE": "It is there for everybody who asks the SQL server; a query, if it has one, begins at once.",
        "INSERT": "What is inserted stands in the topic and cannot be taken back.",
        "DROP": "Its query has to be ended before; the topic stays, unless DELETE TOPIC says otherwise.",
        "TERMINATE": "The query ends; what it has written stays.",
    }
    warnings = ("The topic's records are gone with it.",) if "DELETE TOPIC" in statement.upper() else ()
    return ActionPlan(
        "sql-statement",
        {"statement": statement},
        (Difference("sql", None, statement),),
        command("sql", server.url, "-e", statement),
        effects=(effects[first],) if first in effects else (),
        warnings=warnings,
        typed=first if first in DROPS and warnings else None,
        run=lambda each: _run(each, statement),
    )


def _run(reach: Reach, statement: str) -> None:
    """Have it carried out; raises AdminError where the server says, at once or later, that it failed."""
    server = reach.sql()
    for answer in server.ask("POST", "/ksql", {"ksql": statement, "streamsProperties": {}}) or []:
        status, name = answer.get("commandStatus") or {}, answer.get("commandId")
        until = time.monotonic() + LAST_SECONDS_MAX
        while name and status.get("status") in ("QUEUED", "PARSING", "EXECUTING") and time.monotonic() < until:
            time.sleep(0.1)
            status = server.ask("GET", f"/status/{name}")
        if status.get("status") == "ERROR":
            raise AdminError(str(status.get("message")))


SQL: dict[str, Planner] = {"sql-statement": _statement}
