"""Aggregates over a block: counts, sums of whole numbers and their extremes as partial results of each group, whatever else
record by record over lists, under the same rules as `aggregates` and `windowed` have for single records.

Only aggregates whose updates are told at the end of the batch: what lies between is seen by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.streams.engine.accumulators import Accumulator, accumulator
from ottla.streams.engine.columnar.flow import Flow
from ottla.streams.engine.columnar.groups import Groups, grouped, key_codes
from ottla.streams.engine.columnar.steps import Step, computed
from ottla.streams.engine.columnar.values import Unfit
from ottla.streams.engine.interface import Headers
from ottla.streams.engine.stores import KeyValueStore
from ottla.streams.engine.task import Node
from ottla.streams.engine.values import Raw
from ottla.streams.engine.window_updater import WindowUpdater
from ottla.streams.windows import TimeWindows

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Failed", "is_combined", "key_aggregate", "window_aggregate"]

CODES_MAX = 1 << 62
Effects = list[Callable[[], None]]
Failed = Callable[[int, Exception], None]
"""Told of a row of the block whose record a user's function failed with; raises where it is not skipped."""
Merge = Callable[[Any, Any], Any]
_EXTREMES: dict[str, Any] = {"min": np.minimum, "max": np.maximum}


def is_combined(node: Node) -> bool:
    """Whether an aggregate is of those that have partial results."""
    return node.operation.aggregator.kind in ("count", "sum", "min", "max")


@dataclass(frozen=True, slots=True, eq=False)
class _Partial:
    """What each group adds to its aggregate."""

    values: Sequence[Any]
    merge: Merge


def _added(one: Any, other: Any) -> Any:
    return other if one is None else one + other


def _partials(node: Node) -> Callable[[Flow, Groups], _Partial | None] | None:
    """Return what computes the partial results of an aggregate; None for one that has none."""
    aggregator = node.operation.aggregator
    if aggregator.kind == "count" and aggregator.argument is None:
        return lambda _flow, groups: _Partial(groups.counts.tolist(), _added)
    if not is_combined(node):
        return None
    compute = None if aggregator.argument is None else computed(node, aggregator.argument)

    def partial(flow: Flow, groups: Groups) -> _Partial | None:
        taken = flow.value if compute is None else compute(flow)
        missing = taken.missing()
        if aggregator.kind == "count":
            counts = groups.counts if missing is None else groups.counted(~missing)
            return _Partial(counts.tolist(), _added)
        array = taken.array
        if array is None or not pa.types.is_integer(array.type) or missing is not None:
            return None  # behind a null the time of an aggregate that is none yet begins anew
        numbers = array.cast(pa.int64()).to_numpy()
        if aggregator.kind == "sum":
            sums = groups.summed(numbers)
            return None if sums is None else _Partial(sums.tolist(), _added)
        limits = np.iinfo(np.int64)
        found = np.full(len(groups.codes), limits.max if aggregator.kind == "min" else limits.min)
        _EXTREMES[aggregator.kind].at(found, groups.of_row, numbers)
        return _Partial(found.tolist(), _least if aggregator.kind == "min" else _greatest)

    return partial


def _least(one: Any, other: Any) -> Any:
    return other if one is None or other < one else one


def _greatest(one: Any, other: Any) -> Any:
    return other if one is None or other > one else one


def _with_keys(flow: Flow, *, with_values: bool) -> tuple[Flow, int]:
    """Leave out records without key, and where that is asked without value; return how many those were."""
    missing = flow.key.missing()
    if with_values and (more := flow.value.missing()) is not None:
        missing = more if missing is None else missing | more
    if missing is None:
        return flow, 0
    return flow.where(~missing), int(missing.sum())


def _raw_keys(flow: Flow, serde: Any) -> pa.BinaryArray:
    found = flow.key.encoded(serde)
    if found.null_count:
        raise Unfit("a key without bytes")
    return found


def _headers_of(flow: Flow, rows: NDArray[np.int64]) -> Sequence[Headers]:
    headers = flow.headers
    return [()] * len(rows) if headers is None else [headers[row] for row in rows.tolist()]


# -- by key


def key_aggregate(node: Node, store: KeyValueStore, effects: Effects, failed: Failed) -> Step:
    """Return the step of an aggregate by key."""
    how, partials, task = accumulator(node.operation.aggregator, node), _partials(node), node.task

    def step(flow: Flow) -> None:
        flow, dropped = _with_keys(flow, with_values=True)
        raws = _raw_keys(flow, store.spec.key)
        applied: Callable[[], None] | None = None
        if partials is not None:
            codes, dictionary = key_codes(raws)
            groups = grouped(codes, flow.times)
            found = partials(flow, groups)
            if found is not None:
                keys = flow.key.take(groups.first).listed()
                names = dictionary.to_numpy(zero_copy_only=False).tolist()
                told = _headers_of(flow, groups.last)
                applied = lambda: _combine(store, names, keys, groups, found, how, told)  # noqa: E731
        if applied is None:
            one_by_one = _by_key(flow, raws)
            applied = lambda: _accumulate(store, one_by_one, how, failed)  # noqa: E731

        def apply() -> None:
            task.dropped_null_key += dropped
            applied()

        effects.append(apply)

    return step


def _combine(
    store: KeyValueStore,
    raws: list[bytes],
    keys: list[Any],
    groups: Groups,
    partial: _Partial,
    how: Accumulator,
    headers: Sequence[Headers],
) -> None:
    """Take each group's partial result into its entry."""
    live, entry_of, turn = store.live, store.entry, store.turn
    entries = []
    for raw, key in zip(raws, keys, strict=True):
        entry = live.get(raw)
        entries.append(entry_of(raw, key) if entry is None else entry)
    _merge(entries, groups, partial, how)
    for group in groups.by_last:
        entry = entries[group]
        entry[3] = turn()
        entry[5] = headers[group]


def _merge(entries: list[list[Any]], groups: Groups, partial: _Partial, how: Accumulator) -> None:
    merge = partial.merge
    for entry, value, time in zip(entries, partial.values, groups.latest.tolist(), strict=True):
        aggregate = entry[0]
        if aggregate is None:
            aggregate = how.initial()
            entry[1] = time
        elif time > entry[1]:
            entry[1] = time
        entry[0] = merge(aggregate, value)


def _listed(flow: Flow, raws: pa.BinaryArray) -> Iterable[tuple[int, bytes, Any, Any, int, Headers]]:
    """Return rows as tuples: of which record, the key's bytes, key, value, time, headers."""
    count = len(flow)
    origin = range(count) if flow.origin is None else flow.origin.tolist()
    headers = flow.headers if flow.headers is not None else [()] * count
    named = raws.to_numpy(zero_copy_only=False).tolist()
    rows = (origin, named, flow.key.listed(), flow.value.listed(), flow.times.tolist(), headers)
    return list(zip(*rows, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _ByKey:
    """Rows of a block by their keys: what a key costs, it costs once."""

    names: list[bytes]
    """The keys' bytes, in the order in which they came first."""
    first_keys: list[Any]
    codes: list[int]
    """Which of the keys each row has."""
    keys: Iterable[Any]
    """Of each row."""
    origin: Iterable[int]
    values: list[Any]
    times: list[int]
    headers: Iterable[Headers]


def _by_key(flow: Flow, raws: pa.BinaryArray) -> _ByKey:
    codes, dictionary = key_codes(raws)
    count = len(codes)
    first = np.empty(len(dictionary), np.int64)
    first[codes[::-1]] = np.arange(count - 1, -1, -1)
    first_keys, places = flow.key.take(first).listed(), codes.tolist()
    return _ByKey(
        names=dictionary.to_numpy(zero_copy_only=False).tolist(),
        first_keys=first_keys,
        codes=places,
        keys=list(map(first_keys.__getitem__, places)) if flow.key.is_read_from(raws) else flow.key.listed(),
        origin=range(count) if flow.origin is None else flow.origin.tolist(),
        values=flow.value.listed(),
        times=flow.times.tolist(),
        headers=[()] * count if flow.headers is None else flow.headers,
    )


def _accumulate(store: KeyValueStore, rows: _ByKey, how: Accumulator, failed: Failed) -> None:
    """Add values one by one, in their order."""
    live, entry_of, turn, deserialize = store.live, store.entry, store.turn, store.deserialize
    add, initial, skipped = how.add, how.initial, -1
    entries = []
    for raw, key in zip(rows.names, rows.first_keys, strict=True):
        found = live.get(raw)
        entries.append(entry_of(raw, key) if found is None else found)
    columns = (rows.origin, map(entries.__getitem__, rows.codes), rows.keys, rows.values, rows.times, rows.headers)
    for origin, entry, key, value, time, headers in zip(*columns, strict=True):
        aggregate = entry[0]
        try:
            if aggregate is None or aggregate.__class__ is Raw or origin == skipped:
                if origin == skipped:
                    continue
                if aggregate is not None:
                    aggregate = deserialize(bytes(aggregate))
                if aggregate is None:
                    entry[0] = add(key, value, initial())
                    entry[1] = time
                    entry[3] = turn()
                    entry[5] = headers
                    continue
            entry[0] = add(key, value, aggregate)
        except Exception as error:  # a user's function may raise anything
            failed(origin, error)
            skipped = origin
            continue
        if time > entry[1]:
            entry[1] = time
        entry[3] = turn()
        entry[5] = headers


# -- by key and window


def window_aggregate(node: Node, updater: WindowUpdater, effects: Effects, failed: Failed) -> Step:
    """Return the step of an aggregate over tumbling or hopping windows."""
    windows = node.operation.windows
    if not isinstance(windows, TimeWindows):
        raise Unfit("windows of no fixed places")
    partials = _partials(node)
    size, advance, grace = windows.size_ms, windows.advance_ms, updater.grace_ms

    def step(flow: Flow) -> None:
        flow, dropped = _with_keys(flow, with_values=False)
        if not len(flow):
            effects.append(lambda: _drop(node, dropped, 0))
            return
        times = flow.times
        running = np.maximum.accumulate(np.maximum(times, updater.stream_time))
        rows, starts = _windows_of(times, size, advance)
        open_ = starts + size > running[rows] - grace
        late = int(len(open_) - open_.sum())
        rows, starts = rows[open_], starts[open_]
        whole = flow if len(rows) == len(flow) and size == advance else flow.take(rows)
        raws = _raw_keys(whole, updater.store.spec.key)
        applied = _windows(whole, raws, starts)

        def apply() -> None:
            _drop(node, dropped, late)
            updater.stream_time = max(updater.stream_time, int(running[-1]))
            applied()

        effects.append(apply)

    def _windows(flow: Flow, raws: pa.BinaryArray, starts: NDArray[np.int64]) -> Callable[[], None]:
        if partials is not None and len(flow):
            codes, dictionary = key_codes(raws)
            earliest = int(starts.min())
            width = int(starts.max() - earliest) // advance + 1
            if width * len(dictionary) > CODES_MAX:
                raise Unfit("windows too far from one another")
            groups = grouped(codes * width + (starts - earliest) // advance, flow.times)
            found = partials(flow, groups)
            if found is not None:
                names = dictionary.take(pa.array(groups.codes // width)).to_numpy(zero_copy_only=False).tolist()
                keys = flow.key.take(groups.first).listed()
                places, told = starts[groups.first].tolist(), _headers_of(flow, groups.last)
                return lambda: _combine_windows(updater, names, keys, places, groups, found, told)
        listed = _listed(flow, raws)
        places = starts.tolist()
        return lambda: _update_each(updater, listed, places, failed)

    return step


def _drop(node: Node, without_key: int, late: int) -> None:
    node.task.dropped_null_key += without_key
    node.task.dropped_late += late


def _windows_of(times: NDArray[np.int64], size: int, advance: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (row, start) of each window that a row lies in, by row and start."""
    rows = np.arange(len(times))
    if size == advance:
        return rows, times - times % size
    first = np.maximum(0, times - size + advance) // advance * advance
    counts = (times - first) // advance + 1
    repeated = np.repeat(rows, counts)
    within = np.arange(len(repeated)) - np.repeat(np.cumsum(counts) - counts, counts)
    return repeated, first[repeated] + within * advance


def _combine_windows(
    updater: WindowUpdater,
    raws: list[bytes],
    keys: list[Any],
    starts: list[int],
    groups: Groups,
    partial: _Partial,
    headers: Sequence[Headers],
) -> None:
    """Take each group's partial result into the entry of its key and window."""
    store, rows = updater.store, updater.store.rows
    live, entries = rows.live, []
    for raw, key, start in zip(raws, keys, starts, strict=True):
        places = live.get(raw)
        entry = None if places is None else places.get(start)
        if entry is None:
            entry = rows.entry(raw, start, key)
        entries.append(entry)
    _merge(entries, groups, partial, updater.how)
    for group in groups.by_last:
        entry = entries[group]
        entry[3] = rows.turn()
        entry[5] = headers[group]
    store.observed.note(max(starts))


def _update_each(
    updater: WindowUpdater,
    rows: Iterable[tuple[int, bytes, Any, Any, int, Headers]],
    starts: list[int],
    failed: Failed,
) -> None:
    skipped = -1
    for (origin, _, key, value, time, headers), start in zip(rows, starts, strict=True):
        if origin == skipped:
            continue
        try:
            updater.update(key, value, start, time, headers)
        except Exception as error:  # a user's function may raise anything
            failed(origin, error)
            skipped = origin
