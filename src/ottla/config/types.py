"""Kafka's configuration types and bounds: text → value → text, and what is said of a value that is not allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import NamedTuple

from ottla.base import ConfigError

__all__ = ["ConfigKey", "ConfigType", "Password", "UpdateMode", "Value", "parse_value", "value_text"]


class ConfigType(IntEnum):
    """A key's type; the number is the one of DescribeConfigs answers (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(IntEnum):
    """How a broker key may change while brokers run (KIP-226)."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


@dataclass(frozen=True, slots=True)
class Password:
    """A secret that no log line and no answer shows."""

    secret: str

    def __repr__(self) -> str:
        return "[hidden]"


Value = bool | int | float | str | tuple[str, ...] | Password | None
"""What a key's text parses to; None where a key without default is not set."""


class ConfigKey(NamedTuple):
    """What is known of one key: its type, default, bound and meaning."""

    name: str
    type: ConfigType
    default: str | None
    bound: str | None
    importance: str
    mode: UpdateMode
    internal: bool
    non_empty: bool
    doc: str

    @property
    def field(self) -> str:
        """The name of the key's typed field."""
        return self.name.replace(".", "_")

    @property
    def sensitive(self) -> bool:
        """True where the value is shown to nobody."""
        return self.type is ConfigType.PASSWORD

    @property
    def default_value(self) -> Value:
        """The default as a typed value."""
        return None if self.default is None else _PARSERS[self.type](self.name, self.default)

    def parse(self, text: str) -> Value:
        """Return the typed value of `text`; raises ConfigError where type or bound forbid it."""
        return parse_value(self, text)


_INTEGERS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_DIGITS = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?", re.ASCII)


def parse_value(key: ConfigKey, text: str) -> Value:
    """Parse `text` as Kafka does (trimmed, then by type) and hold it against the key's bound.

    Raises ConfigError whose text is Kafka's own for the same mistake.
    """
    value = _PARSERS[key.type](key.name, text.strip())
    if isinstance(value, tuple):
        value = _checked_list(key, value)
    if key.bound:
        _check_for(key.bound)(key.name, value)
    return value


def value_text(value: Value) -> str | None:
    """Return the value as Kafka writes it in files and answers; a Password's secret is written out."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            from ottla.java import double_text  # here: few values are numbers of this kind

            return double_text(value)
        case tuple():
            return ",".join(value)
        case Password():
            return value.secret
    return str(value)


def _parse_boolean(name: str, text: str) -> Value:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ConfigError(name, text, "Expected value to be either true or false")
    return lowered == "true"


def _parse_integer(kind: ConfigType) -> Callable[[str, str], Value]:
    bits = _INTEGERS[kind]

    def parse(name: str, text: str) -> Value:
        value = int(text) if _DIGITS.fullmatch(text) and len(text) < 32 else None
        if value is None or not -(1 << bits) <= value < 1 << bits:
            raise ConfigError(name, text, f"Not a number of type {kind.name}")
        return value

    return parse


def _parse_double(name: str, text: str) -> Value:
    if not _DOUBLE.fullmatch(text):
        raise ConfigError(name, text, "Not a number of type DOUBLE")
    return float(text.rstrip("fFdD"))


def _parse_text(_name: str, text: str) -> Value:
    return text


def _parse_list(_name: str, text: str) -> Value:
    if not text:
        return ()
    first, *between = text.split(",")  # not by an expression: that tries blanks again from each of them
    if not between:
        return (first,)
    *inner, last = between
    return (first.rstrip(), *(each.strip() for each in inner), last.lstrip())


def _checked_list(key: ConfigKey, items: tuple[str, ...]) -> tuple[str, ...]:
    """Return the items without their repetitions; no item may be empty (KIP-1161)."""
    if not items and key.non_empty:
        valid = key.bound or "any non-empty value"
        message = f"Configuration '{key.name}' must not be empty. Valid values include: {valid}"
        raise ConfigError(key.name, "", valid, message)
    if "" in items:
        message = f"Configuration '{key.name}' values must not be empty."
        raise ConfigError(key.name, ",".join(items), "no empty item", message)
    return tuple(dict.fromkeys(items))


def _parse_password(_name: str, text: str) -> Value:
    return Password(text)


_PARSERS: Mapping[ConfigType, Callable[[str, str], Value]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: _parse_text,
    ConfigType.INT: _parse_integer(ConfigType.INT),
    ConfigType.SHORT: _parse_integer(ConfigType.SHORT),
    ConfigType.LONG: _parse_integer(ConfigType.LONG),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: _parse_text,
    ConfigType.PASSWORD: _parse_password,
}

# ---- bounds -------------------------------------------------------------------------------------------------------

Check = Callable[[str, Value], None]


@cache
def _check_for(bound: str) -> Check:
    """Return the check that a bound's text, as Kafka's documentation prints it, stands for."""
    if match := re.fullmatch(r"\[([-.\d]+),\.\.\.(?:,([-.\d]+))?\](?: or (-?\d+))?", bound):
        low, high, also = match.groups()
        return _range_check(low, high, also)
    if bound.startswith("[partitionId]"):
        return _check_throttled
    if "by_duration" in bound:
        return _check_duration
    if match := re.fullmatch(r"(\(case insensitive\) )?\[(.*)\]", bound):
        return _choice_check(match[2].split(", "), any_case=bool(match[1]))
    if bound in ("non-empty string", "non-empty list", "non-null string"):
        return _check_not_empty if bound == "non-empty string" else _check_nothing
    raise AssertionError(f"a bound of unknown form: {bound}")


def _check_nothing(_name: str, _value: Value) -> None:
    """Every value is allowed."""


def _range_check(low: str, high: str | None, also: str | None) -> Check:
    number = float if "." in low + (high or "") else int

    def check(name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if also is not None and high is not None:
            if value != int(also) and not number(low) <= value <= number(high):
                allowed = f"Value must be between {low} and {high} or equal to {also}"
                raise ConfigError(name, value_text(value), allowed)
            return
        if value < number(low):
            raise ConfigError(name, value_text(value), f"Value must be at least {low}")
        if high is not None and value > number(high):
            raise ConfigError(name, value_text(value), f"Value must be no more than {high}")

    return check


def _choice_check(choices: list[str], *, any_case: bool) -> Check:
    allowed = ", ".join(choices)
    case = " (case insensitive)" if any_case else ""
    known = {choice.upper() for choice in choices} if any_case else set(choices)

    def check(name: str, value: Value) -> None:
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and (each.upper() if any_case else each) not in known:
                raise ConfigError(name, each, f"String must be one of{case}: {allowed}")

    return check


def _check_not_empty(name: str, value: Value) -> None:
    if value == "":
        raise ConfigError(name, value, "String must be non-empty")


def _check_throttled(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    if value == ("*",) or all(re.fullmatch(r"[0-9]+:[0-9]+", each) for each in value):
        return
    allowed = "a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    raise ConfigError(name, f"[{', '.join(value)}]", f"{name} must be the literal '*' or {allowed}")


def _check_duration(name: str, value: Value) -> None:
    if value in ("latest", "earliest"):
        return
    if not re.fullmatch(r"by_duration:P(?!$)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", str(value)):
        raise ConfigError(name, value, "must be latest, earliest or by_duration:PnDTnHnMn.nS")
