"""What a request, SET and ALTER SYSTEM may set: a short list, each property with its type and its bounds.

Whoever may send statements is not whoever runs the server. So nothing is here that names an address, a file, a class, a
login or a listener: those are of the server's own file alone. `ksql.streams.` may stand before settings of a query's Streams
application, as ksqlDB's users write it; with and without it they are one property.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, MutableMapping

from ottla.base import ConfigError
from ottla.config import CONSUMER_KEYS, PRODUCER_KEYS, STREAMS_KEYS, ConfigKey, ConfigType, UpdateMode, parse_value
from ottla.sql import SqlError
from ottla.sql.commands import FORMATS

__all__ = [
    "STREAMS_PREFIX",
    "STREAMS_PROPERTIES",
    "WITHOUT_EFFECT",
    "allowed",
    "check_properties",
    "check_property",
    "is_allowed",
    "of_streams",
    "put",
    "refusal_of",
    "unset",
    "warnings_of",
]

log = logging.getLogger(__name__)
STREAMS_PREFIX = "ksql.streams."
PROPERTIES_MAX = 100
"""Of one session."""
NAME_LETTERS_MAX = 200
"""Of a name in an error."""
VALUE_LETTERS_MAX = 64 << 10
"""Of one value: a position names every partition of its topics."""
_CACHE = f"[0,...,{128 << 20}]"
"""Bytes of memory that one query's caches may take, on each of its hosts."""
_LIMIT = re.compile(r"ksql\.functions\.[a-z_]{1,50}\.limit")
_NUMBER = ConfigType.INT


def _key(name: str, kind: ConfigType, bound: str | None = None) -> ConfigKey:
    return ConfigKey(name, kind, None, bound, "MEDIUM", UpdateMode.CLUSTER_WIDE, False, False, "")


_FORMATS = f"[{', '.join(sorted(FORMATS))}]"
_STREAMS: Mapping[str, ConfigKey] = {
    each.name: each
    for each in (
        _key("auto.offset.reset", ConfigType.STRING, "(case insensitive) [earliest, latest]"),
        _key("cache.max.bytes.buffering", ConfigType.LONG, _CACHE),
        _key("commit.interval.ms", ConfigType.LONG, "[0,...,600000]"),
        _key("processing.guarantee", ConfigType.STRING, "[at_least_once, exactly_once_v2]"),
        _key("statestore.cache.max.bytes", ConfigType.LONG, _CACHE),
    )
}
"""Settings of a query's Streams application."""
STREAMS_PROPERTIES = tuple(_STREAMS)
"""Those that need no `ksql.streams.` before them."""
_OWN: Mapping[str, ConfigKey] = {
    each.name: each
    for each in (
        *(
            _key(name, ConfigType.BOOLEAN)
            for name in (
                "ksql.cast.strings.preserve.nulls",
                "ksql.nested.error.set.null",
                "ksql.persistence.wrap.single.values",
                "ksql.query.pull.table.scan.enabled",
                "ksql.timestamp.throw.on.invalid",
            )
        ),
        _key("ksql.output.topic.name.prefix", ConfigType.STRING),
        _key("ksql.persistence.default.format.key", ConfigType.STRING, _FORMATS),
        _key("ksql.persistence.default.format.value", ConfigType.STRING, _FORMATS),
        _key("ottla.sql.pull.consistency", ConfigType.STRING, "(case insensitive) [eventual, latest]"),
        _key("ottla.sql.pull.position", ConfigType.STRING),
    )
}
"""What statements mean, and what pull queries wait for."""
WITHOUT_EFFECT: Mapping[str, str] = {
    "num.stream.threads": "a query's work is shared by the server's hosts (ottla.sql.hosts)",
}
"""What scripts for ksqlDB set, and nothing here: it is taken, and the answer to the statement says so."""


def is_allowed(name: str) -> bool:
    """Return whether a session may set a property."""
    return _key_of(name) is not None or _plain(name) in WITHOUT_EFFECT


def refusal_of(name: str) -> str | None:
    """Return why a session may not set a property, in ksqlDB's words; None for one that it may."""
    if is_allowed(name):
        return None
    return _prohibited([name]) if _is_known(name) else _unknown(name)


def check_property(name: str, value: str) -> None:
    """Raise SqlError, in ksqlDB's words, for what a session may not set, or not to this value."""
    key = _key_of(name)
    if (refusal := refusal_of(name)) is not None:
        raise SqlError(refusal)
    if len(value) > VALUE_LETTERS_MAX:
        raise SqlError(f"Invalid value for configuration {name}: it is longer than {VALUE_LETTERS_MAX} letters")
    if key is None:
        return
    try:
        parse_value(key._replace(name=name), value)
    except ConfigError as error:
        raise SqlError(str(error)) from None


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise SqlError for a request's properties of which one may not be set; all of those are named."""
    if forbidden := [name for name in properties if not is_allowed(name)]:
        known = [name for name in forbidden if _is_known(name)]
        raise SqlError(_prohibited(known) if known else _unknown(forbidden[0]))
    if len(properties) > PROPERTIES_MAX:
        raise SqlError(f"A session has {PROPERTIES_MAX} properties at most; these are {len(properties)}")
    for name, value in properties.items():
        check_property(name, value)


def put(properties: MutableMapping[str, str], name: str, value: str) -> None:
    """Take a SET in; the same property under its other name is gone then. Raises SqlError."""
    check_property(name, value)
    unset(properties, name)
    properties[name] = value


def unset(properties: MutableMapping[str, str], name: str) -> None:
    """Take a property away, under either of its names."""
    for each in [each for each in properties if _plain(each) == _plain(name)]:
        del properties[each]


def allowed(properties: Mapping[str, str], query: str = "") -> dict[str, str]:
    """Return those properties that a session may set; with a query's id, what is left out of its is told in the log.

    A command topic may hold what an earlier version took, or what somebody has written past the server.
    """
    found: dict[str, str] = {}
    for name, value in properties.items():
        try:
            check_property(name, value)
        except SqlError as error:
            if query:
                log.warning("query %s begins without a property of its statement, %s: %s", query, _short(name), error)
        else:
            found[name] = value
    return found


def of_streams(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a session's settings for a query's Streams application, by their plain names."""
    found: dict[str, str] = {}
    for name, value in properties.items():
        plain = _plain(name)
        if plain in _STREAMS:
            found[plain] = value.strip().lower()
    return found


def warnings_of(properties: Iterable[str]) -> list[str]:
    """Return a sentence for each property that was taken and has no effect."""
    named = ((name, WITHOUT_EFFECT.get(_plain(name))) for name in properties)
    return [f"{name} has no effect: {why}." for name, why in named if why is not None]


def _plain(name: str) -> str:
    """The name without its prefix, for settings of Streams applications."""
    plain = name.removeprefix(STREAMS_PREFIX)
    return plain if plain in _STREAMS or plain in WITHOUT_EFFECT else name


def _key_of(name: str) -> ConfigKey | None:
    if _LIMIT.fullmatch(name):
        return _key(name, _NUMBER)
    return _STREAMS.get(_plain(name)) or _OWN.get(name)


def _is_known(name: str) -> bool:
    """Whether a name is a property of ksqlDB's, Kafka's or Ottla's at all: such a one is prohibited, and not unknown."""
    plain = name.removeprefix(STREAMS_PREFIX)
    for prefix in ("consumer.", "producer.", "main.consumer.", "restore.consumer.", "global.consumer.", "admin."):
        plain = plain.removeprefix(prefix)
    return name.startswith(("ksql.", "ottla.")) or any(
        plain in keys for keys in (STREAMS_KEYS, CONSUMER_KEYS, PRODUCER_KEYS)
    )


def _unknown(name: str) -> str:
    return f"Not recognizable as ksql, streams, consumer, or producer property: '{_short(name)}'"


def _prohibited(names: Iterable[str]) -> str:
    return (
        "One or more properties overrides set locally are prohibited by the KSQL server (use UNSET to reset their "
        f"default value): [{', '.join(map(_short, names))}]"
    )


def _short(name: str) -> str:
    return name if len(name) <= NAME_LETTERS_MAX else f"{name[:NAME_LETTERS_MAX]}…"
