"""The named functions of a case in Python; `Functions.java` beside this file has the same, and each name means one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["AGGREGATORS", "INITIAL", "JOINERS", "MAPPERS", "MERGERS", "PREDICATES", "REDUCERS", "text", "window_text"]


def text(value: Any) -> str:
    """Return Java's `String.valueOf`."""
    return "null" if value is None else str(value)


def window_text(windowed: Any) -> str:
    """Return a windowed key as `key@start/end`."""
    return f"{text(windowed.key)}@{windowed.start_ms}/{windowed.end_ms}"


def _part(value: str | None, which: int) -> str | None:
    """Return the text before or after the first bar; None where there is none of it."""
    if value is None:
        return None
    parts = value.split("|", 1)
    return parts[which] if len(parts) > which and parts[which] else None


def _number(value: int | None) -> int:
    return 0 if value is None else value


def _even(value: int | None) -> bool:
    return value is not None and value % 2 == 0


def _remainder(value: int) -> int:
    """Return Java's `value % 3`, whose sign is the value's."""
    return value % 3 if value >= 0 else -(-value % 3)


PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "always": lambda k, v: True,
    "never": lambda k, v: False,
    "even": lambda k, v: _even(v),
    "positive": lambda k, v: v is not None and v > 0,
    "below_5": lambda k, v: v is not None and v < 5,
    "key_is_a": lambda k, v: k == "a",
    "key_not_b": lambda k, v: k != "b",
    "value_set": lambda k, v: v is not None,
    "starts_x": lambda k, v: text(v).startswith("x"),
}

MAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "same": lambda k, v: v,
    "null": lambda k, v: None,
    "double": lambda k, v: None if v is None else 2 * v,
    "mod3": lambda k, v: None if v is None else _remainder(v),
    "text": lambda k, v: text(v),
    "upper": lambda k, v: None if v is None else v.upper(),
    "length": lambda k, v: None if v is None else len(v),
    "parse": lambda k, v: None if v is None else int(v),
    "with_key": lambda k, v: f"{text(k)}:{text(v)}",
    "drop_odd": lambda k, v: v if _even(v) else None,
    "first": lambda k, v: _part(v, 0),
    "rest": lambda k, v: _part(v, 1),
    "key": lambda k, v: k,
    "key_prefix": lambda k, v: None if k is None else k[0],
    "key_x": lambda k, v: text(k) + "x",
    "mod3_text": lambda k, v: None if v is None else text(_remainder(v)),
    "null_if_odd": lambda k, v: k if _even(v) else None,
    "window_text": lambda k, v: window_text(k),
    "window_key": lambda k, v: k.key,
    "swap_text": lambda k, v: (text(v), k),
    "mod3_pair": lambda k, v: (text(_remainder(v)), v),
    "prefix_pair": lambda k, v: (k[0], v),
    "first_rest": lambda k, v: (_part(v, 0), _part(v, 1)),
    "first_same": lambda k, v: (_part(v, 0), v),
    "window_pair": lambda k, v: (k.key, v),
    "words": lambda k, v: [] if v is None else v.split(" "),
    "twice": lambda k, v: [v, v],
    "with_bang": lambda k, v: [(k, v), (text(k) + "!", v)],
}

JOINERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "pair": lambda k, left, right: f"{text(left)}+{text(right)}",
    "pair_key": lambda k, left, right: f"{text(k)}:{text(left)}+{text(right)}",
    "sum": lambda k, left, right: _number(left) + _number(right),
    "right": lambda k, left, right: right,
    "drop_x": lambda k, left, right: None if "x" in (left, right) else f"{text(left)}+{text(right)}",
}

INITIAL: dict[str, Any] = {"zero": 0, "empty": "", "none": None}

AGGREGATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda k, v, aggregate: _number(aggregate) + _number(v),
    "minus": lambda k, v, aggregate: _number(aggregate) - _number(v),
    "count": lambda k, v, aggregate: _number(aggregate) + 1,
    "concat": lambda k, v, aggregate: text(aggregate) + text(v),
    "concat_minus": lambda k, v, aggregate: f"{text(aggregate)}-{text(v)}",
    "concat_plus": lambda k, v, aggregate: f"{text(aggregate)}+{text(v)}",
    "concat_length": lambda k, v, aggregate: text(aggregate) + text(len(v)),
    "clear_at_3": lambda k, v, aggregate: None if v == 3 else _number(aggregate) + _number(v),
}

REDUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda one, other: one + other,
    "minus": lambda one, other: one - other,
    "max": lambda one, other: max(one, other),
    "min": lambda one, other: min(one, other),
    "concat": lambda one, other: one + text(other),
    "concat_minus": lambda one, other: f"{one}-{text(other)}",
    "last": lambda one, other: other,
    "first": lambda one, other: one,
    "null_if_same": lambda one, other: None if one == other else other,
}

MERGERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda k, one, other: _number(one) + _number(other),
    "concat": lambda k, one, other: f"{one}&{other}",
}
