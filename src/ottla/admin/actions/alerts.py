"""Alerts: rules that are made, changed and deleted, and silenced for a while."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping

from ottla.admin.actions.plan import (
    ActionPlan,
    AlertRules,
    Arguments,
    Difference,
    Planner,
    Reach,
    Undo,
    command,
    number,
    text,
)
from ottla.admin.errors import AdminError

__all__ = ["ALERTS"]

MINUTE_MS = 60_000
MINUTES_MAX = 30 * 24 * 60
FIELDS = ("condition", "severity", "targets")


def _set(reach: Reach, arguments: Arguments) -> ActionPlan:
    watch, name = reach.watch(), text(arguments, "name")
    given = {key: arguments[key] for key in ("name", *FIELDS) if key in arguments}
    rule = watch.checked(given)
    before = watch.rule(name)
    differences = tuple(
        Difference(f"alert {name}/{key}", _said(None if before is None else before.get(key)), _said(rule[key]))
        for key in FIELDS
        if before is None or before.get(key) != rule[key]
    )
    undo = Undo("delete-alert", {"name": name}) if before is None else Undo("set-alert", dict(before))
    warnings = () if rule["targets"] else ("It names no target: it is shown here, and nobody is told.",)
    return ActionPlan(
        "set-alert",
        {**rule},
        differences,
        _command(watch, {f"rule {name}": rule}),
        effects=("It is looked at with each sample, from the next one on.",),
        warnings=warnings,
        undo=undo,
        run=lambda each: each.watch().put(name, rule),
    )


def _delete(reach: Reach, arguments: Arguments) -> ActionPlan:
    watch, name = reach.watch(), text(arguments, "name")
    before = _known(watch, name)
    return ActionPlan(
        "delete-alert",
        {"name": name},
        tuple(Difference(f"alert {name}/{key}", _said(before.get(key)), None) for key in FIELDS),
        _command(watch, dict.fromkeys((f"silence {name}", f"state {name}", f"rule {name}"))),
        effects=("Its silence ends with it.",) if watch.silence(name) else (),
        undo=Undo("set-alert", dict(before)),
        run=lambda each: each.watch().put(name, None),
    )


def _silence(reach: Reach, arguments: Arguments) -> ActionPlan:
    watch, name = reach.watch(), text(arguments, "name")
    _known(watch, name)
    minutes = number(arguments, "minutes")
    if minutes is None or not 0 <= minutes <= MINUTES_MAX:
        raise AdminError(f"minutes is a whole number up to {MINUTES_MAX}; 0 ends a silence")
    before = watch.silence(name)
    left = max(0, -(-(before - _now_ms()) // MINUTE_MS))
    said = (f"{left} minutes more" if left else "none", f"{minutes} minutes" if minutes else "none")
    return ActionPlan(
        "silence-alert",
        {"name": name, "minutes": minutes},
        (Difference(f"alert {name}/silence", *said),) if said[0] != said[1] else (),
        _command(watch, {f"silence {name}": {"until_ms": _now_ms() + minutes * MINUTE_MS if minutes else 0}}),
        effects=("It goes on to be looked at and shown; nobody is told meanwhile.",) if minutes else (),
        undo=Undo("silence-alert", {"name": name, "minutes": left}),
        run=lambda each: each.watch().put_silence(name, _now_ms() + minutes * MINUTE_MS if minutes else 0),
    )


def _known(watch: AlertRules, name: str) -> dict[str, object]:
    found = watch.rule(name)
    if found is None:
        raise AdminError(f"There is no alert {name}")
    return dict(found)


def _said(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _command(watch: AlertRules, values: Mapping[str, object]) -> str:
    """Return the command that writes the same records: the rules are what the topic says."""
    words = command("produce", watch.topic, "-o", "jsonl")
    lines = "\n".join(json.dumps({"key": key, "value": value}) for key, value in values.items())
    return f"echo {shlex.quote(lines)} | {words}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


ALERTS: dict[str, Planner] = {"set-alert": _set, "delete-alert": _delete, "silence-alert": _silence}
