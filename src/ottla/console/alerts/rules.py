"""Alerts: conditions over what is sampled, for how long they have to hold, and whether they ring. Pure.

A rule's state is `ok`; `waiting` while its condition holds but not yet for long enough; `ringing` from then until it does
not hold any more. A figure that is not known changes nothing for two minutes, nor while parts of the cluster are silent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.base import OttlaError
from ottla.console.figures.measures import FIGURES
from ottla.console.figures.views import Seen
from ottla.sql import Measured, SqlError, measured_condition

__all__ = ["OK", "RINGING", "WAITING", "AlertError", "Event", "Rule", "State", "next_state", "rule_of"]

OK, WAITING, RINGING = "ok", "waiting", "ringing"
SEVERITIES: Final = ("bad", "warn")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")
FOR: Final = re.compile(r"(.*?)\s+FOR\s+(\d{1,6})\s+(SECOND|MINUTE|HOUR)S?\s*$", re.IGNORECASE | re.DOTALL)
UNITS: Final = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
UNKNOWN_MS_MAX: Final = 120_000
FOR_SECONDS_MAX: Final = 7 * 86_400


class AlertError(OttlaError):
    """What cannot be a rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition with its name; who is told of it, by the names of targets."""

    name: str
    condition: str
    """As it was written, with `FOR 5 MINUTES`."""
    severity: str
    targets: tuple[str, ...]
    for_s: int
    measured: Measured = field(repr=False, compare=False)

    def kept(self) -> dict[str, object]:
        """Return it in JSON's terms."""
        return {
            "name": self.name,
            "condition": self.condition,
            "severity": self.severity,
            "targets": list(self.targets),
        }

    def values(self, seen: Seen) -> dict[str, object]:
        """Return the figures that it looks at."""
        return {text: call(seen) for text, call in self.measured.calls.items()}


def rule_of(given: Mapping[str, Any]) -> Rule:
    """Return the rule of JSON's terms; raises AlertError, which says what is wrong with it."""
    name, condition, severity = given.get("name"), given.get("condition"), given.get("severity", "bad")
    targets = given.get("targets", [])
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise AlertError("name has letters, digits, dots, dashes, underscores and spaces, 100 at most")
    if severity not in SEVERITIES:
        raise AlertError(f"severity is one of {', '.join(SEVERITIES)}")
    if not isinstance(targets, list | tuple) or not all(isinstance(each, str) for each in targets):
        raise AlertError("targets is a list of names")
    if not isinstance(condition, str) or not condition.strip():
        raise AlertError("condition is needed, such as lag('billing') > 100000 FOR 5 MINUTES")
    text, for_s = condition.strip(), 0
    if (found := FOR.fullmatch(text)) is not None:
        text, for_s = found.group(1), int(found.group(2)) * UNITS[found.group(3).upper()]
        if for_s > FOR_SECONDS_MAX:
            raise AlertError("FOR is a week at most")
    try:
        measured = measured_condition(text, FIGURES)
    except SqlError as error:
        raise AlertError(str(error)) from None
    except RecursionError:
        raise AlertError("The condition is nested too deeply") from None
    return Rule(name, condition.strip(), severity, tuple(dict.fromkeys(targets)), for_s, measured)


@dataclass(frozen=True, slots=True)
class State:
    """How it stands with a rule, since when, and whose console rings it."""

    is_: str = OK
    since_ms: int = 0
    """Since when its condition holds; for `ok`, when that ended."""
    rang_ms: int = 0
    """When it began to ring; 0 where it does not."""
    owner: str = ""
    told: bool = False
    """True once its targets were told that it rings, or that was given up."""
    unknown_ms: int = 0
    """Since when it is not known whether its condition holds; 0 where it is."""


@dataclass(frozen=True, slots=True)
class Event:
    """A rule that begins to ring, or that rings no more."""

    rule: Rule
    state: State
    rings: bool
    at_ms: int
    values: Mapping[str, object]


def next_state(rule: Rule, state: State, seen: Seen) -> State:
    """Return how it stands after a sample."""
    at_ms = seen.sample.at_ms
    holds = rule.measured.evaluate(seen)
    if holds is None and state.is_ != OK:
        if not state.unknown_ms or state.unknown_ms > at_ms:
            return replace(state, unknown_ms=at_ms)
        if seen.sample.partial or at_ms - state.unknown_ms < UNKNOWN_MS_MAX:
            return state
    if holds is not True:
        return state if state.is_ == OK else State(OK, at_ms)
    state = replace(state, unknown_ms=0)
    if state.is_ == OK or state.since_ms > at_ms:  # or the clock was set back
        state = State(WAITING, at_ms)
    if state.is_ == WAITING and at_ms - state.since_ms >= rule.for_s * 1000:
        return replace(state, is_=RINGING, rang_ms=at_ms)
    return state
