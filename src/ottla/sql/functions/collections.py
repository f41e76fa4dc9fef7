"""Functions of arrays and maps, those that take lambdas among them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from ottla.java import hash_ordered
from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_order import key_of
from ottla.sql.functions.registry import check_size, scalar, weight

Items = list[object]
Entries = dict[object, object]
PIECE = 50_000
"""Elements that are sorted at a time."""
_PRIMITIVES = ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING")


@scalar("ARRAY_LENGTH", "ARRAY<T> -> INTEGER")
def array_length(items: Items) -> int:
    """How many elements an array has."""
    return len(items)


@scalar("ARRAY_CONTAINS", "ARRAY<T>, T -> BOOLEAN", nulls=True)
def array_contains(items: Items | None, value: object) -> bool:
    """True where an element of an array is a value."""
    return items is not None and value in items


def _distinct(items: Items) -> Items:
    found = {_key(item): item for item in reversed(items)}  # of equal elements the first one stays
    return [found[key] for key in dict.fromkeys(map(_key, items))]


def _key(item: object) -> object:
    """What is equal where an element is: the element itself, or what can be in a set for an array, a map, a struct."""
    if isinstance(item, list):
        return (list, tuple(map(_key, item)))
    if isinstance(item, dict):
        return (dict, frozenset((key, _key(each)) for key, each in item.items()))
    return item


@scalar("ARRAY_DISTINCT", "ARRAY<T> -> ARRAY<T>")
def array_distinct(items: Items) -> Items:
    """The array's different elements, in the order in which they come first."""
    return _distinct(items)


@scalar("ARRAY_EXCEPT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_except(items: Items, others: Items) -> Items:
    """The different elements of one array that are not in another."""
    known = set(map(_key, others))
    return [item for item in _distinct(items) if _key(item) not in known]


@scalar("ARRAY_INTERSECT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_intersect(items: Items, others: Items) -> Items:
    """The different elements of one array that are in another, too."""
    known = set(map(_key, others))
    return [item for item in _distinct(items) if _key(item) in known]


@scalar("ARRAY_UNION", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def array_union(items: Items, others: Items) -> Items:
    """The different elements of two arrays."""
    return _distinct([*items, *others])


@scalar("ARRAY_CONCAT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>", nulls=True)
def array_concat(items: Items | None, others: Items | None) -> Items | None:
    """One array and then the other; null counts as empty, unless both are."""
    return None if items is None and others is None else [*(items or []), *(others or [])]


@scalar("ARRAY_REMOVE", "ARRAY<T>, T -> ARRAY<T>", nulls=True)
def array_remove(items: Items | None, value: object) -> Items | None:
    """The array without the elements that are a value."""
    return None if items is None else [item for item in items if item != value]


@scalar("ARRAY_JOIN", "ARRAY<T> -> STRING", nulls=True)
def array_join(items: Items | None) -> str | None:
    """The array's elements as texts, commas between them."""
    return array_join_with(items, ",")


@scalar("ARRAY_JOIN", "ARRAY<T>, STRING -> STRING", nulls=True)
def array_join_with(items: Items | None, separator: str | None) -> str | None:
    """The array's elements as texts, a separator between them."""
    if items is None:
        return None
    texts, between = list(map(_text, items)), separator or ""
    check_size("ARRAY_JOIN", sum(map(len, texts)) + len(between) * len(texts))
    return between.join(texts)


def _text(item: object) -> str:
    if isinstance(item, list | dict):
        raise EvaluationError("'ARRAY_JOIN' only supports arrays of primitive values")
    if isinstance(item, float):
        from ottla.java import double_text

        return double_text(item)
    return "null" if item is None else str(item).lower() if isinstance(item, bool) else str(item)


def _known(items: Items) -> list[object]:
    return [item for item in items if item is not None]


def _ordered(items: Items) -> list[Any]:
    """Elements that are not null and have an order."""
    found = _known(items)
    if any(isinstance(each, list | dict) for each in found):
        raise EvaluationError("only elements that can be compared have an order: none that are arrays, maps or structs")
    return found


@scalar("ARRAY_MAX", "ARRAY<T> -> T")
def array_max(items: Items) -> object:
    """The greatest element; nulls are left out."""
    known = _ordered(items)
    return max(known, key=key_of(known), default=None)


@scalar("ARRAY_MIN", "ARRAY<T> -> T")
def array_min(items: Items) -> object:
    """The least element; nulls are left out."""
    known = _ordered(items)
    return min(known, key=key_of(known), default=None)


@scalar("ARRAY_SORT", "ARRAY<T> -> ARRAY<T>")
def array_sort(items: Items) -> Items | None:
    """The array's elements, the least first and nulls last."""
    return array_sort_by(items, "ASC")


@scalar("ARRAY_SORT", "ARRAY<T>, STRING -> ARRAY<T>")
def array_sort_by(items: Items, order: str) -> Items | None:
    """The array's elements, `ASC` or `DESC`, nulls last."""
    given = order.strip().upper()
    if given not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        return None
    known = _sorted(_ordered(items), reverse=given.startswith("D"))
    return [*known, *[None] * (len(items) - len(known))]


def _sorted(items: list[Any], *, reverse: bool) -> list[Any]:
    """The elements in order; of many a piece is sorted at a time, since sorting holds all threads."""
    key = key_of(items)
    pieces = [sorted(items[at : at + PIECE], key=key, reverse=reverse) for at in range(0, len(items), PIECE)]
    return pieces[0] if len(pieces) == 1 else list(heapq.merge(*pieces, key=key, reverse=reverse))


@scalar("SLICE", "ARRAY<T>, INTEGER, INTEGER -> ARRAY<T>", nulls=True)
def sliced(items: Items | None, first: int | None, last: int | None) -> Items | None:
    """The array's elements from one place to another, both included; null where a place is outside of it."""
    if items is None:
        return None
    start, end = 0 if first is None else first - 1, len(items) if last is None else last
    return items[start:end] if 0 <= start <= end <= len(items) else None


@scalar("ELT", "INTEGER, STRING… -> STRING", nulls=True)
def element(place: int | None, *values: str | None) -> str | None:
    """The argument at a place."""
    return values[place - 1] if place is not None and 1 <= place <= len(values) else None


@scalar("FIELD", "STRING, STRING… -> INTEGER", nulls=True)
def field_of(value: str | None, *values: str | None) -> int:
    """The place of a value among those behind it, 0 where it is not there."""
    return values.index(value) + 1 if value is not None and value in values else 0


# -- maps


@scalar("MAP_KEYS", "MAP<STRING, V> -> ARRAY<STRING>")
def map_keys(entries: Entries) -> Items:
    """The map's keys."""
    return hash_ordered(entries)


@scalar("MAP_VALUES", "MAP<STRING, V> -> ARRAY<V>")
def map_values(entries: Entries) -> Items:
    """The map's values."""
    return [entries[key] for key in hash_ordered(entries)]


@scalar("MAP_UNION", "MAP<STRING, V>, MAP<STRING, V> -> MAP<STRING, V>", nulls=True)
def map_union(entries: Entries | None, others: Entries | None) -> Entries | None:
    """The entries of two maps; the second's value is taken where both have a key."""
    return None if entries is None and others is None else {**(entries or {}), **(others or {})}


@scalar("AS_MAP", "ARRAY<STRING>, ARRAY<V> -> MAP<STRING, V>")
def as_map(keys: Items, values: Items) -> Entries:
    """A map of keys and values; keys that have none have null."""
    return dict(zip(keys, [*values, *[None] * (len(keys) - len(values))], strict=False))


@scalar("ENTRIES", *(f"MAP<STRING, {each}>, BOOLEAN -> ARRAY<STRUCT<K STRING, V {each}>>" for each in _PRIMITIVES))
def entries_of(entries: Entries, ordered: bool) -> Items:
    """The map's entries as structs, sorted by key where that is asked."""
    keys = sorted(entries, key=str) if ordered else hash_ordered(entries)
    return [{"K": key, "V": entries[key]} for key in keys]


# -- lambdas


def _bounded(values: Iterator[object]) -> Iterator[object]:
    """What a lambda makes; raises EvaluationError where all together is too much, as of an array in each element."""
    total = 0
    for each in values:
        total += weight(each)
        check_size("TRANSFORM", total)
        yield each


@scalar("TRANSFORM", "ARRAY<T>, T => R -> ARRAY<R>")
def transform(items: Items, change: Callable[..., object]) -> Items:
    """The array with each element changed by a lambda."""
    return list(_bounded(change(item) for item in items))


@scalar("TRANSFORM", "MAP<K, V>, (K, V) => R, (K, V) => S -> MAP<R, S>")
def transform_map(entries: Entries, key: Callable[..., object], value: Callable[..., object]) -> Entries:
    """The map with each key and each value changed by a lambda."""
    changed = _bounded(value(name, each) for name, each in entries.items())
    return {key(name, each): found for (name, each), found in zip(entries.items(), changed, strict=True)}


@scalar("FILTER", "ARRAY<T>, T => BOOLEAN -> ARRAY<T>")
def filtered(items: Items, holds: Callable[..., object]) -> Items:
    """The array's elements for which a lambda holds."""
    return [item for item in items if holds(item)]


@scalar("FILTER", "MAP<K, V>, (K, V) => BOOLEAN -> MAP<K, V>")
def filtered_map(entries: Entries, holds: Callable[..., object]) -> Entries:
    """The map's entries for which a lambda holds."""
    return {key: value for key, value in entries.items() if holds(key, value)}


@scalar("REDUCE", "ARRAY<T>, S, (S, T) => S -> S", nulls=True)
def reduced(items: Items | None, state: object, change: Callable[..., object]) -> object:
    """A state that a lambda changes with each element of an array."""
    if state is None:
        return None
    for item in items or ():
        state = change(state, item)
    return state


@scalar("REDUCE", "MAP<K, V>, S, (S, K, V) => S -> S", nulls=True)
def reduced_map(entries: Entries | None, state: object, change: Callable[..., object]) -> object:
    """A state that a lambda changes with each entry of a map."""
    if state is None:
        return None
    for key in hash_ordered(entries or {}):
        state = change(state, key, (entries or {})[key])
    return state
