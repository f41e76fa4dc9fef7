"""What a key's value is held against: each validator raises ConfigError in Kafka's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.base import ConfigError
from ottla.connect.data.java_text import java_text
from ottla.connect.errors import config_error
from ottla.connect.java_regex import PatternError, compile_java

__all__ = [
    "AtMost",
    "CaseInsensitiveValidString",
    "Composite",
    "Embedded",
    "Lambda",
    "NonEmptyList",
    "NonEmptyString",
    "NonEmptyText",
    "NonNull",
    "Range",
    "Regex",
    "ValidList",
    "ValidString",
    "Validator",
    "invalid",
]


class Validator(Protocol):
    """Raises ConfigError for a value that a key must not have; `str()` says what it may."""

    def __call__(self, name: str, value: Any) -> None:
        """Hold a value against the rule."""
        ...


def invalid(name: str, value: Any, message: str | None = None) -> ConfigError:
    """Return the error that Kafka raises for a key's value."""
    text = f"Invalid value {java_text(value)} for configuration {name}"
    return ConfigError(name, value, message or "", text if message is None else f"{text}: {message}")


class Range:
    """Numbers from `least` to `most`, both included."""

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self.least, self.most = least, most

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, None, "Value must be non-null")
        if self.least is not None and value < self.least:
            raise invalid(name, value, f"Value must be at least {java_text(self.least)}")
        if self.most is not None and value > self.most:
            raise invalid(name, value, f"Value must be no more than {java_text(self.most)}")

    def __str__(self) -> str:
        ends = ("" if self.least is None else java_text(self.least), "" if self.most is None else java_text(self.most))
        return "[" + ",".join(part for part in (ends[0], "...", ends[1]) if part) + "]"


class ValidString:
    """One of some strings."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def __call__(self, name: str, value: Any) -> None:
        if value not in self.allowed:
            raise invalid(name, value, "String must be one of: " + ", ".join(self.allowed))

    def __str__(self) -> str:
        return "[" + ", ".join(self.allowed) + "]"


class CaseInsensitiveValidString:
    """One of some strings, in any case."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = tuple(each.upper() for each in allowed)

    def __call__(self, name: str, value: Any) -> None:
        if value is None or value.upper() not in self.allowed:
            raise invalid(name, value, "String must be one of (case insensitive): " + ", ".join(self.allowed))

    def __str__(self) -> str:
        return "(case insensitive) [" + ", ".join(self.allowed) + "]"


class ValidList:
    """A list without repetitions and empty items, of some strings where any are named (KIP-1161)."""

    def __init__(self, *allowed: str, empty: bool = True, null: bool = False) -> None:
        self.allowed = ValidString(*allowed)
        self.empty, self.null = empty, null

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            if self.null:
                return
            raise config_error(f"Configuration '{name}' values must not be null.")
        if not self.empty and not value:
            valid = str(self.allowed) if self.allowed.allowed else "any non-empty value"
            raise config_error(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
        if len(set(value)) != len(value):
            raise config_error(f"Configuration '{name}' values must not be duplicated.")
        for each in value:
            if each == "":
                raise config_error(f"Configuration '{name}' values must not be empty.")
            if self.allowed.allowed:
                self.allowed(name, each)

    def __str__(self) -> str:
        return str(self.allowed) if self.allowed.allowed else ""


class NonNull:
    """Anything but nothing."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, "null", "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class NonEmptyString:
    """Any string but the empty one; nothing at all is allowed."""

    def __call__(self, name: str, value: Any) -> None:
        if value == "":
            raise invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonEmptyText:
    """A string that is not empty and holds no control characters; nothing at all is allowed."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        if not value:
            raise invalid(name, value, "String may not be empty")
        found = [str(ord(each)) for each in value if ord(each) < 32 or 127 <= ord(each) < 160]
        if found:
            text = "String may not contain control sequences but had the following ASCII chars: "
            raise invalid(name, value, text + ", ".join(found))

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


class NonEmptyList:
    """A list with something in it."""

    def __call__(self, name: str, value: Any) -> None:
        if not value:
            raise invalid(name, value, "Empty list")

    def __str__(self) -> str:
        return "non-empty list"


class AtMost:
    """A list of so many items at most."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, name: str, value: Any) -> None:
        if len(value) > self.size:
            raise invalid(name, value, f"exceeds maximum list size of [{self.size}].")

    def __str__(self) -> str:
        return f"List containing maximum of {self.size} elements"


class Regex:
    """A regular expression."""

    def __call__(self, name: str, value: Any) -> None:
        try:
            compile_java(value)
        except (PatternError, TypeError) as error:
            raise invalid(name, value, f"Invalid regex: {error if value is not None else 'null'}") from error

    def __str__(self) -> str:
        return "valid regex"


class Composite:
    """Several rules at once."""

    def __init__(self, *rules: Validator) -> None:
        self.rules = rules

    def __call__(self, name: str, value: Any) -> None:
        for rule in self.rules:
            rule(name, value)

    def __str__(self) -> str:
        return ", ".join(str(rule) for rule in self.rules)


class Embedded:
    """Another definition's rule under a prefix: it speaks of the key by the name that it knows."""

    def __init__(self, rule: Validator, prefix: str) -> None:
        self.rule, self.prefix = rule, prefix

    def __call__(self, name: str, value: Any) -> None:
        self.rule(name.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.rule)


class Lambda:
    """A rule of one's own: a function of the value that raises ConfigError, and what to say of it."""

    def __init__(self, rule: Callable[[str, Any], object], text: str) -> None:
        self.rule, self.text = rule, text

    def __call__(self, name: str, value: Any) -> None:
        self.rule(name, value)

    def __str__(self) -> str:
        return self.text
