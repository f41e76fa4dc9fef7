"""What of records is shown to nobody, or to few: hidden before anything sees it, so that no filter can ask of it. Pure.

A rule names topics by a pattern, a part of the record (`value.card.number`, `key`, `headers.token`), how it is hidden, and
who sees it all the same. The record that a search, a filter, an export or a page works with has the masked part only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ottla.base import ConfigError
from ottla.console.records.reads import Read
from ottla.sql import Condition
from ottla.wire import Record

__all__ = ["Mask", "Masks", "mask_rules"]

HIDDEN = "•••"
WAYS = ("hide", "hash", "last4")
PARTS = ("value", "key", "headers")
LAST = 4
HASH_DIGITS = 16
PARSED_BYTES_MAX = 8 << 20
"""A part of which something is hidden, and that is larger, is hidden whole."""


@dataclass(frozen=True, slots=True)
class Mask:
    """One rule."""

    topics: str
    path: tuple[str, ...]
    """Where it is: `value`, `key` or `headers`, then names of fields; of lists each element."""
    how: str = "hide"
    excepted: frozenset[str] = frozenset()
    """Users who see it."""


def mask_rules(text: str, setting: str) -> tuple[Mask, ...]:
    """Return the rules of a JSON list; raises ConfigError, which says which of them is wrong."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(setting, text[:100], f"a JSON list of rules: {error}") from None
    if not isinstance(given, list):
        raise ConfigError(setting, text[:100], "a JSON list of rules")
    return tuple(_rule(each, setting) for each in given)


def _rule(given: object, setting: str) -> Mask:
    if not isinstance(given, dict) or not set(given) <= {"topics", "path", "how", "except"}:
        raise ConfigError(setting, str(given)[:100], "each rule has topics, path, how and except")
    topics, path, how = given.get("topics"), given.get("path"), given.get("how", "hide")
    excepted = given.get("except", [])
    if not isinstance(topics, str) or not topics or not isinstance(path, str) or not path:
        raise ConfigError(setting, str(given)[:100], "topics is a pattern such as pay*, path such as value.card.number")
    parts = tuple(path.split("."))
    if parts[0] not in PARTS or not all(parts) or (parts[0] == "headers" and len(parts) == 1):
        raise ConfigError(setting, path, f"path begins with {', '.join(PARTS)}; a header has its name behind it")
    if how not in WAYS:
        raise ConfigError(setting, str(how), f"how is one of {', '.join(WAYS)}")
    if not isinstance(excepted, list) or not all(isinstance(each, str) for each in excepted):
        raise ConfigError(setting, str(excepted)[:100], "except is a list of users")
    if parts[0] == "headers":
        parts = ("headers", ".".join(parts[1:]))
    return Mask(topics, parts, how, frozenset(excepted))


class Masks:
    """The rules that hold for one topic and one user; `secret` makes hashes that nobody else can make."""

    def __init__(self, rules: Sequence[Mask], secret: bytes) -> None:
        self.rules = tuple(rules)
        self._secret = secret

    @classmethod
    def of(cls, rules: Sequence[Mask], topic: str, who: str, secret: bytes) -> Masks | None:
        """Return what is hidden of a topic from somebody; None where nothing is."""
        mine = [each for each in rules if fnmatchcase(topic, each.topics) and who not in each.excepted]
        return cls(mine, secret) if mine else None

    def refuses(self, condition: Condition) -> str | None:
        """Return what a condition asks about that is hidden; None where it asks about nothing of that."""
        if condition.is_plain:
            return None  # words are looked for in what is left
        for path in condition.paths:
            through_lists = tuple(each for each in path if not each.lstrip("-").isdigit())
            for rule in self.rules:
                if _meet(path, rule.path) or _meet(through_lists, rule.path):
                    return ".".join(rule.path)
        return None

    def masked(self, record: Record | Read) -> Read:
        """Return a record as it may be seen."""
        key, value = self._part(record.key, "key"), self._part(record.value, "value")
        hidden = {rule.path[1]: rule.how for rule in self.rules if rule.path[0] == "headers"}
        headers = tuple(
            (name, self._text(data, hidden[name]).encode() if name in hidden and data is not None else data)
            for name, data in record.headers
        )
        by = (record.key_by, record.value_by) if isinstance(record, Read) else (None, None)
        return Read(record.offset, record.timestamp, key, value, headers, *by)

    def _part(self, data: bytes | None, part: str) -> bytes | None:
        rules = [rule for rule in self.rules if rule.path[0] == part]
        if data is None or not rules:
            return data
        whole = next((rule for rule in rules if len(rule.path) == 1), None)
        if whole is not None:
            return self._text(data, whole.how).encode()
        if len(data) > PARSED_BYTES_MAX:
            return HIDDEN.encode()
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            return HIDDEN.encode()  # nobody can say where in it the hidden part is
        for rule in rules:
            found = self._at(found, rule.path[1:], rule.how)
        return json.dumps(found, ensure_ascii=False).encode(errors="replace")

    def _at(self, value: Any, path: tuple[str, ...], how: str) -> Any:
        if not path:
            return self._value(value, how)
        if isinstance(value, list):
            return [self._at(each, path, how) for each in value]
        if isinstance(value, Mapping) and path[0] in value:
            return {**value, path[0]: self._at(value[path[0]], path[1:], how)}
        return value

    def _value(self, value: Any, how: str) -> Any:
        if value is None:
            return None
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        return self._text(text.encode(errors="replace"), how)

    def _text(self, data: bytes, how: str) -> str:
        if how == "hash":
            return "#" + hmac.new(self._secret, data, hashlib.sha256).hexdigest()[:HASH_DIGITS]
        if how == "last4" and len(data) > 2 * LAST:
            return HIDDEN + data.decode(errors="replace")[-LAST:]
        return HIDDEN


def _meet(asked: Sequence[str], hidden: Sequence[str]) -> bool:
    """Whether one of two paths leads through the other."""
    shorter = min(len(asked), len(hidden))
    return tuple(asked[:shorter]) == tuple(hidden[:shorter])
