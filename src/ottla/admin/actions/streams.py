"""Streams applications, by the REST interface of their service or their own: begun, paused, resumed, ended, promoted."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, Undo, text
from ottla.admin.errors import AdminError
from ottla.admin.rest import RestError

__all__ = ["STREAMS"]

STATES = ("started", "paused", "running", "ended")
BACK = {"paused": "running", "running": "paused", "started": "ended", "ended": "started"}
MODES = ("continuous", "micro-batch")


def _state(reach: Reach, arguments: Arguments) -> ActionPlan:
    place, name, to = str(arguments.get("service", "")), text(arguments, "name"), str(arguments.get("to", ""))
    if to not in STATES:
        raise AdminError(f"to is one of {', '.join(STATES)}")
    service = reach.streams(place)
    path = f"/applications/{quote(name, safe='', errors='replace')}"
    try:
        found: Any = service.ask("GET", path)
    except RestError as error:
        if error.status != 404:
            raise
        found = None
    if (found is None) is not (to == "started"):
        raise AdminError(f"{name} runs there already" if found is not None else f"{name} does not run there")
    before = "not there" if found is None else "paused" if found.get("paused") else str(found["state"]).lower()
    method, rest, body = {
        "started": ("POST", "/applications", {"name": name}),
        "paused": ("PUT", f"{path}/pause", None),
        "running": ("PUT", f"{path}/resume", None),
        "ended": ("DELETE", path, None),
    }[to]
    data = "" if body is None else f' -H "Content-Type: application/json" -d \'{{"name": "{name}"}}\''
    effects = {
        "started": "It goes on from its committed offsets.",
        "paused": "It keeps its state and its place in its group, and reads nothing.",
        "running": "It reads on.",
        "ended": "It commits and ends; its offsets, changelogs and file stay.",
    }
    return ActionPlan(
        "streams-state",
        {"service": place, "name": name, "to": to},
        (Difference(f"application {name}", before, to),),
        f"curl -X {method}{data} {service.url}{rest}",
        effects=(effects[to],),
        undo=Undo("streams-state", {"service": place, "name": name, "to": BACK[to]}),
        run=lambda each: each.streams(place).ask(method, rest, body),
    )


def _promote(reach: Reach, arguments: Arguments) -> ActionPlan:
    place, to = str(arguments.get("service", "")), str(arguments.get("to", ""))
    if to not in MODES:
        raise AdminError(f"to is one of {', '.join(MODES)}")
    application = reach.streams(place)
    found = application.ask("POST", "/promote", {"to": to, "dry_run": True})
    name = str(application.ask("GET", "/status")["application_id"])
    return ActionPlan(
        "promote-streams",
        {"service": place, "to": to},
        (Difference(f"application {name}/execution", found["before"], to),),
        f"ottla streams promote app.py --to {to} --url {application.url}",
        effects=("It commits, ends what runs, and begins in the other mode; results wait for that some seconds.",),
        undo=Undo("promote-streams", {"service": place, "to": str(found["before"])}),
        run=lambda each: each.streams(place).ask("POST", "/promote", {"to": to}),
    )


STREAMS: dict[str, Planner] = {"streams-state": _state, "promote-streams": _promote}
