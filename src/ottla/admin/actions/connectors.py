"""Kafka Connect's connectors, by REST: created, changed, paused, stopped, restarted, deleted, and their offsets."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, Undo, command, text
from ottla.admin.errors import AdminError
from ottla.admin.rest import RestError, Worker

__all__ = ["CONNECTORS", "HIDDEN", "hidden_names", "shown_value"]

HIDDEN = "[hidden]"
MARKS = (HIDDEN, "(hidden)")
"""What comes back in the place of a secret that somebody was shown hidden."""
STATES = {"paused": "PAUSED", "running": "RUNNING", "stopped": "STOPPED"}
VERBS = {"paused": "pause", "running": "resume", "stopped": "stop"}


def hidden_names(settings: object, defined: Mapping[str, str] | None = None) -> set[str]:
    """Return which settings are not shown as they are: by name and value, or by the type that the plugin defines."""
    from ottla.config import hidden, is_secret

    known = defined or {}
    if isinstance(settings, Mapping):
        told = {str(key): None if each is None else str(each) for key, each in settings.items()}
        return {
            key
            for key, each in told.items()
            if hidden(key, each, known.get(key)) != each or is_secret(key, each, known.get(key))
        }
    return {str(each) for each in settings if is_secret(str(each), None, known.get(str(each)))}  # type: ignore[attr-defined]


def shown_value(value: object, *, is_hidden: bool) -> object:
    """Return a value; of a secret only that it is one, unless it is a reference to where the secret stands."""
    from ottla.config import is_placeholder

    if value is None or not is_hidden:
        return value
    return value if is_placeholder(str(value)) else HIDDEN


def _config(arguments: Arguments) -> dict[str, str]:
    given = arguments.get("config")
    if not isinstance(given, Mapping) or not given:
        raise AdminError("config maps names of settings to values")
    return {str(key): str(value) for key, value in given.items() if value is not None}


def _connector(worker: Worker, name: str) -> Any | None:
    try:
        return worker.connector("GET", name)
    except RestError as error:
        if error.status == 404:
            return None
        raise


def _checked(worker: Worker, config: Mapping[str, str | None]) -> dict[str, str]:
    """Have a configuration checked by its plugin; returns the types of its settings, and raises AdminError for errors."""
    plugin = config.get("connector.class")
    if not plugin:
        raise AdminError("connector.class is needed: the class of a plugin")
    found = worker.ask("PUT", f"/connector-plugins/{quote(plugin, safe='')}/config/validate", dict(config))
    wrong = [
        f"{each['value']['name']}: {error}" for each in found["configs"] for error in each["value"].get("errors") or ()
    ]
    if wrong:
        raise AdminError("\n".join(wrong[:20]))
    return {each["definition"]["name"]: each["definition"]["type"] for each in found["configs"]}


def _with_secrets(given: Mapping[str, str], before: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return a configuration whose marks are what is there; raises AdminError for one that stands for nothing."""
    from ottla.config import put_back, shown

    kept = {key for key, value in given.items() if value in MARKS and before.get(key) is not None}
    whole, wrong = put_back({key: value for key, value in given.items() if key not in kept}, before, shown(before))
    wrong += [key for key, value in whole.items() if value in MARKS and key not in wrong and key not in before]
    if wrong:
        raise AdminError(f"{', '.join(wrong)}: {HIDDEN} does not stand for what is there: give the secret itself")
    return {**whole, **{key: before[key] for key in kept}}


def _refuse_sending(
    given: Mapping[str, str],
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    types: Mapping[str, str],
) -> None:
    """Raise AdminError where a secret that was not given anew could go to another address than it was given for."""
    from ottla.config import kept_secrets, moved, shown

    kept = {*kept_secrets(given, before, after, shown(before, types))}
    kept |= {key for key, value in before.items() if value and HIDDEN in value and after.get(key) == value}
    changed = moved(before, after)
    if kept and changed:
        raise AdminError(
            f"The values of {', '.join(sorted(kept))} are hidden, and {', '.join(changed)} may have them sent elsewhere: "
            "give them anew with this change, or leave them out"
        )


def _configure(reach: Reach, arguments: Arguments) -> ActionPlan:
    from ottla.config import shown

    cluster, name = str(arguments.get("cluster", "")), text(arguments, "name")
    worker, given = reach.worker(cluster), {**_config(arguments), "name": text(arguments, "name")}
    there = _connector(worker, name)
    before: dict[str, str | None] = {} if there is None else dict(there["config"])
    config = _with_secrets(given, before)
    types = _checked(worker, config)
    _refuse_sending(given, before, config, types)
    old, new = shown(before, types), shown(config, types)
    changed = [key for key in sorted({*before, *config}) if before.get(key) != config.get(key)]
    secret = bool(hidden_names(before, types))
    differences = [
        Difference(
            f"connector {name}/{key}",
            old.get(key),
            f"{new[key]} (another)" if key in old and key in new and old[key] == new[key] else new.get(key),
        )
        for key in changed
    ]
    file = json.dumps({"name": name, "config": new}, separators=(",", ":"))
    undo = (
        Undo("delete-connector", {"cluster": cluster, "name": name})
        if there is None
        else Undo("configure-connector", {"cluster": cluster, "name": name, "config": before}, secret)
    )
    return ActionPlan(
        "configure-connector",
        {"cluster": cluster, "name": name, "config": new},
        tuple(differences),
        f"echo {shlex.quote(file)} > connector.json; " + command("connect", "create", "connector.json"),
        effects=("It begins at once." if there is None else "Its tasks are started again with it.",),
        warnings=() if differences else ("Nothing would change.",),
        undo=undo if changed else None,
        pinned={"cluster": cluster, "name": name, "config": config},
        run=lambda each: each.worker(cluster).connector("PUT", name, "/config", config),
    )


def _there(reach: Reach, arguments: Arguments) -> tuple[str, str, Worker, Any]:
    cluster, name = str(arguments.get("cluster", "")), text(arguments, "name")
    worker = reach.worker(cluster)
    found = _connector(worker, name)
    if found is None:
        raise AdminError(f"There is no connector {name}")
    return cluster, name, worker, found


def _delete(reach: Reach, arguments: Arguments) -> ActionPlan:
    from ottla.config import shown

    cluster, name, _, found = _there(reach, arguments)
    old = shown(found["config"])
    return ActionPlan(
        "delete-connector",
        {"cluster": cluster, "name": name},
        tuple(Difference(f"connector {name}/{key}", value, None) for key, value in sorted(old.items())),
        command("connect", "delete", name),
        effects=(f"Its {len(found['tasks'])} tasks end.", "A source's offsets, and a sink's group, stay."),
        undo=Undo(
            "configure-connector",
            {"cluster": cluster, "name": name, "config": dict(found["config"])},
            old != found["config"],
        ),
        run=lambda each: each.worker(cluster).connector("DELETE", name),
    )


def _state(reach: Reach, arguments: Arguments) -> ActionPlan:
    cluster, name, worker, _ = _there(reach, arguments)
    wanted = text(arguments, "to")
    if wanted not in STATES:
        raise AdminError(f"to is one of {', '.join(STATES)}")
    now = str(worker.connector("GET", name, "/status")["connector"]["state"])
    back = next((key for key, state in STATES.items() if state == now), None)
    effects = {
        "paused": "Its tasks stay where they are, and do nothing.",
        "running": "Its tasks go on from where they were.",
        "stopped": "Its tasks are removed; configuration and offsets stay, and offsets may be changed.",
    }
    changes = (Difference(f"connector {name}/state", now, STATES[wanted]),) if now != STATES[wanted] else ()
    return ActionPlan(
        "connector-state",
        dict(arguments),
        changes,
        command("connect", VERBS[wanted], name),
        effects=(effects[wanted],),
        warnings=() if changes else ("It is so already.",),
        undo=None
        if back is None or not changes
        else Undo("connector-state", {"cluster": cluster, "name": name, "to": back}),
        run=lambda each: each.worker(cluster).connector("PUT", name, f"/{VERBS[wanted]}"),
    )


def _restart(reach: Reach, arguments: Arguments) -> ActionPlan:
    cluster, name, worker, _ = _there(reach, arguments)
    only_failed = arguments.get("only_failed", True) is True
    status = worker.connector("GET", name, "/status")
    parts = [("connector", status["connector"]["state"])]
    parts += [(f"task {each['id']}", each["state"]) for each in status["tasks"]]
    chosen = [(part, state) for part, state in parts if state == "FAILED" or not only_failed]
    if not chosen:
        raise AdminError("Nothing of it has failed")
    query = f"?includeTasks=true&onlyFailed={'true' if only_failed else 'false'}"
    return ActionPlan(
        "restart-connector",
        dict(arguments),
        tuple(Difference(f"connector {name}/{part}", state, "RESTARTING") for part, state in chosen),
        command("connect", "restart", name, *([] if only_failed else ["--all"])),
        effects=("What failed begins again from the offsets that were committed.",),
        run=lambda each: each.worker(cluster).connector("POST", name, f"/restart{query}"),
    )


def _listed(found: object) -> dict[str, Any]:
    rows = found.get("offsets") if isinstance(found, Mapping) else None
    return {json.dumps(each["partition"], sort_keys=True): each["offset"] for each in rows or ()}


def _read_offsets(given: object) -> object:
    """Return offsets that are given as JSON text: through a browser they come so, whose numbers have 53 bits."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise AdminError(f"offsets are no JSON: {error}") from None


def _offsets(reach: Reach, arguments: Arguments) -> ActionPlan:
    cluster, name, worker, _ = _there(reach, arguments)
    given = _read_offsets(arguments.get("offsets"))
    state = str(worker.connector("GET", name, "/status")["connector"]["state"])
    if state != "STOPPED":
        raise AdminError(f"{name} is {state}: stop it first")
    before = _listed(worker.connector("GET", name, "/offsets"))
    if given is None:
        after: dict[str, Any] = dict.fromkeys(before)
    elif isinstance(given, list) and all(isinstance(each, Mapping) and "partition" in each for each in given):
        after = {json.dumps(each["partition"], sort_keys=True): each.get("offset") for each in given}
    else:
        raise AdminError("offsets is a list of objects with partition and offset, null to begin anew")
    moved = {key: value for key, value in after.items() if before.get(key) != value}
    if not moved:
        raise AdminError("Nothing would change")

    def rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{"partition": json.loads(key), "offset": values.get(key)} for key in moved]

    body = {"offsets": rows(moved)}
    said = json.dumps(body, separators=(",", ":"))
    return ActionPlan(
        "connector-offsets",
        dict(arguments),
        tuple(
            Difference(f"connector {name}/{key}", json.dumps(before.get(key)), json.dumps(value))
            for key, value in moved.items()
        ),
        f"echo {shlex.quote(said)} > offsets.json; " + command("connect", "offsets", name, "--set", "offsets.json"),
        effects=("It goes on from there when it is resumed: what lies between is done again, or left out.",),
        undo=Undo("connector-offsets", {"cluster": cluster, "name": name, "offsets": json.dumps(rows(before))}),
        pinned={"cluster": cluster, "name": name, "offsets": json.dumps(rows(moved))},
        run=lambda each: each.worker(cluster).connector("PATCH", name, "/offsets", body),
    )


CONNECTORS: Mapping[str, Planner] = {
    "configure-connector": _configure,
    "delete-connector": _delete,
    "connector-state": _state,
    "restart-connector": _restart,
    "connector-offsets": _offsets,
}
