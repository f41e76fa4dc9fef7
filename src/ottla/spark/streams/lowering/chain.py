"""A tree of Python steps as one function over Arrow batches: what `mapInArrow` calls for a run of stateless steps.

Arrow comes in and goes out once, however many steps there are. Each step is one pass over lists (or one call over arrays);
a record over which a serde or a function raises is skipped, sent to the dead letter topic, or stops the query, as the
application's handlers say; the others of its batch go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.spark.streams.lowering.cells import FAILED, Cells, apply
from ottla.spark.streams.lowering.physical import INPUT, ChainStep
from ottla.spark.streams.lowering.poison import Poison
from ottla.streams import ExceptionPolicy, Function, Serde, operations

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Chain", "ChainEnd", "ChainStep", "Rows"]


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """Where records leave the chain, behind the step of index `after`, and how they are written."""

    name: str
    after: int
    key: Serde | None
    value: Serde | None
    branch: int | None = None
    topic: Any = None
    """A name, or a callable (key, value, record) → name; None where no topic is written."""
    partitioner: Any = None
    partitions: int = 0
    """Partitions of the topic, for the partitioner."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Records on their way: `index` says which row of the incoming batch each came from."""

    keys: Cells
    values: Cells
    index: NDArray[np.int64]

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Return the records that a mask chooses."""
        if bool(mask.all()):
            return self
        chosen = mask.tolist()
        return Rows(self.keys.where(mask, chosen), self.values.where(mask, chosen), self.index[mask])

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True)
class Chain:
    """The steps, where records leave, and what happens with those that fail. Picklable; called in Spark's workers."""

    key: Serde | None
    value: Serde | None
    steps: tuple[ChainStep, ...]
    ends: tuple[ChainEnd, ...]
    deserialization: ExceptionPolicy = field(default_factory=lambda: ExceptionPolicy("fail"))
    processing: ExceptionPolicy = field(default_factory=lambda: ExceptionPolicy("fail"))
    production: ExceptionPolicy = field(default_factory=lambda: ExceptionPolicy("fail"))
    source: str = "source"
    """The node whose serdes decode, for messages."""

    def leave(self, batch: pa.RecordBatch, poison: Poison) -> Iterator[tuple[ChainEnd, Rows]]:
        """Run a batch through the steps; yields what arrives at each end, in the order of the ends."""
        run = _Run(self, poison)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        entering = Rows(
            Cells(self.key, raw=columns["_key"]),
            Cells(self.value, raw=columns["_value"]),
            np.arange(batch.num_rows),
        )
        behind: list[Rows | list[Rows]] = []
        for step in self.steps:
            behind.append(run.step(step, _pick(behind, entering, step.parent, step.branch)))
        for end in self.ends:
            yield end, _pick(behind, entering, end.after, end.branch)


def _pick(behind: list[Rows | list[Rows]], entering: Rows, index: int, branch: int | None) -> Rows:
    if index == INPUT:
        return entering
    found = behind[index]
    if isinstance(found, Rows):
        return found
    assert branch is not None, "a branch's child says which it is"
    return found[branch]


class _Run:
    """One batch on its way through a chain."""

    def __init__(self, chain: Chain, poison: Poison) -> None:
        self.chain = chain
        self.poison = poison

    def step(self, step: ChainStep, rows: Rows) -> Rows | list[Rows]:
        operation = step.operation
        if not len(rows):
            return [rows] * len(operation.children) if isinstance(operation, operations.Branch) else rows
        if isinstance(operation, operations.Branch):
            return self._branch(step, operation, rows)
        return getattr(self, f"_{type(operation).__name__.lower()}")(step, operation, rows)  # type: ignore[no-any-return]

    # what every step needs

    def _items(self, rows: Rows, *, keys: bool, values: bool = True) -> tuple[Rows, list[Any], list[Any]]:
        """Return records as lists, without those that a serde refuses."""
        found_keys: list[Any] = []
        found_values: list[Any] = []
        for name in ("keys", "values"):
            if not (keys if name == "keys" else values):
                continue
            cells: Cells = getattr(rows, name)
            items, bad = cells.items(self._refused(rows))
            if bad:
                return self._items(_without(rows, items), keys=keys, values=values)
            if name == "keys":
                found_keys = items
            else:
                found_values = items
        return rows, found_keys, found_values

    def _arrays(self, rows: Rows, *, keys: bool) -> tuple[Rows, list[pa.Array]]:
        """Return records as Arrow arrays: (values) or (keys, values)."""
        found = []
        for cells in (rows.keys, rows.values) if keys else (rows.values,):
            array, items = cells.typed(self._refused(rows))
            if items is not None:
                return self._arrays(_without(rows, items), keys=keys)
            found.append(array)
        return rows, found

    def _refused(self, rows: Rows) -> Any:
        policy, source = self.chain.deserialization, self.chain.source
        return lambda at, error: self.poison.met(policy, source, int(rows.index[at]), error)

    def _raised(self, step: ChainStep, rows: Rows) -> Any:
        policy = self.chain.processing
        return lambda at, error: self.poison.met(policy, step.name, int(rows.index[at]), error)

    def _call(self, step: ChainStep, function: Function, rows: Rows) -> tuple[Rows, Any]:
        """Call a function with all records; returns results as list (or Arrow array) and the records they belong to."""
        assert function.call is not None, f"step {step.name}: an expression in a chain of Python steps"
        if function.vectorised:
            rows, arrays = self._arrays(rows, keys=function.with_key)
            try:
                return rows, function.call(*arrays)
            except Exception as error:
                self.poison.met_whole(step.name, int(rows.index[0]), error)
                raise
        rows, keys, values = self._items(rows, keys=function.with_key)
        columns = (keys, values) if function.with_key else (values,)
        found, bad = apply(function.call, columns, self._raised(step, rows))
        if bad:
            keep = np.fromiter((each is not FAILED for each in found), np.bool_, len(found))
            return rows.where(keep), [each for each in found if each is not FAILED]
        return rows, found

    # the steps

    def _filter(self, step: ChainStep, operation: operations.Filter, rows: Rows) -> Rows:
        rows, found = self._call(step, operation.predicate, rows)
        mask = _mask(found)
        return rows.where(~mask if operation.negate else mask)

    def _notnullkey(self, step: ChainStep, operation: operations.NotNullKey, rows: Rows) -> Rows:
        if not getattr(operation, "drop", True):
            return rows
        return rows.where(rows.keys.present())

    def _mapvalues(self, step: ChainStep, operation: operations.MapValues, rows: Rows) -> Rows:
        rows, found = self._call(step, operation.mapper, rows)
        return Rows(rows.keys, _cells(operation.value, found, len(rows), step.name), rows.index)

    def _selectkey(self, step: ChainStep, operation: operations.SelectKey, rows: Rows) -> Rows:
        rows, found = self._call(step, operation.mapper, rows)
        return Rows(_cells(operation.key, found, len(rows), step.name), rows.values, rows.index)

    def _map(self, step: ChainStep, operation: operations.Map, rows: Rows) -> Rows:
        rows, found = self._call(step, operation.mapper, rows)
        if operation.mapper.vectorised:
            keys, values = found
        else:
            rows, found = self._pairs(step, rows, found)
            keys, values = ([each[0] for each in found], [each[1] for each in found])
        count = len(rows)
        return Rows(
            _cells(operation.key, keys, count, step.name), _cells(operation.value, values, count, step.name), rows.index
        )

    def _pairs(self, step: ChainStep, rows: Rows, found: list[Any]) -> tuple[Rows, list[Any]]:
        """Leave out results that are no pairs, as failures of the step."""
        wrong = [at for at, each in enumerate(found) if not isinstance(each, tuple) or len(each) != 2]
        if not wrong:
            return rows, found
        for at in wrong:
            error = TypeError(f"expected a tuple (key, value), got {type(found[at]).__name__}")
            self._raised(step, rows)(at, error)
        keep = np.ones(len(found), np.bool_)
        keep[wrong] = False
        return rows.where(keep), [each for at, each in enumerate(found) if keep[at]]

    def _flatmapvalues(self, step: ChainStep, operation: operations.FlatMapValues, rows: Rows) -> Rows:
        rows, found = self._call(step, operation.mapper, rows)
        if operation.mapper.vectorised:
            lists = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
            parents = lists.value_parent_indices() if hasattr(lists, "value_parent_indices") else _parents_of(lists)
            values: Any = lists.flatten()
            at = np.asarray(parents).astype(np.int64)
        else:
            rows, lists, at = self._flattened(step, rows, found)
            values = lists
        return Rows(rows.keys.take(at), _cells(operation.value, values, len(at), step.name), rows.index[at])

    def _flatmap(self, step: ChainStep, operation: operations.FlatMap, rows: Rows) -> Rows:
        rows, found = self._call(step, operation.mapper, rows)
        rows, flat, at = self._flattened(step, rows, found)
        made = Rows(Cells(operation.key, items=flat), Cells(operation.value, items=flat), rows.index[at])
        made, flat = self._pairs(step, made, flat)
        keys, values = [each[0] for each in flat], [each[1] for each in flat]
        return Rows(Cells(operation.key, items=keys), Cells(operation.value, items=values), made.index)

    def _flattened(self, step: ChainStep, rows: Rows, found: list[Any]) -> tuple[Rows, list[Any], NDArray[np.int64]]:
        """Return all that iterables hold, and which record each is of; an iterable may raise, too."""
        found, bad = apply(_list, (found,), self._raised(step, rows))
        if bad:
            keep = np.fromiter((each is not FAILED for each in found), np.bool_, len(found))
            rows, found = rows.where(keep), [each for each in found if each is not FAILED]
        counts = np.fromiter(map(len, found), np.int64, len(found))
        return rows, [value for values in found for value in values], np.repeat(np.arange(len(found)), counts)

    def _peek(self, step: ChainStep, operation: operations.Peek, rows: Rows) -> Rows:
        return self._call(step, operation.action, rows)[0]

    def _foreach(self, step: ChainStep, operation: operations.Foreach, rows: Rows) -> Rows:
        self._call(step, operation.action, rows)
        return rows.where(np.zeros(len(rows), np.bool_))

    def _passthrough(self, step: ChainStep, operation: operations.Operation, rows: Rows) -> Rows:
        return rows

    _tabletostream = _passthrough

    def _branch(self, step: ChainStep, operation: operations.Branch, rows: Rows) -> list[Rows]:
        """Return each child's records: those for which its predicate is the first that holds."""
        left, found = rows, []
        for predicate in operation.predicates:
            if predicate is None or not len(left):
                found.append(left)
                left = left.where(np.zeros(len(left), np.bool_))
                continue
            left, results = self._call(step, predicate, left)
            mask = _mask(results)
            found.append(left.where(mask))
            left = left.where(~mask)
        return found


def _list(values: Any) -> list[Any]:
    return [] if values is None else list(values)


def _mask(found: Any) -> NDArray[np.bool_]:
    """Return a predicate's results as booleans; null is false."""
    if isinstance(found, list):
        return np.fromiter(map(bool, found), np.bool_, len(found))
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if isinstance(found, pa.Array):
        mask: NDArray[np.bool_] = found.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
        return mask
    return np.asarray(found, np.bool_)


def _cells(serde: Serde | None, found: Any, count: int, step: str) -> Cells:
    """Take a function's results as a column; a vectorised function's must be as many as it was given."""
    if isinstance(found, list):
        return Cells(serde, items=found)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if not isinstance(found, pa.Array):
        found = pa.array(found)
    if len(found) != count:
        raise ValueError(f"step {step}: expected {count} results of the vectorised function, got {len(found)}")
    return Cells(serde, typed=found)


def _parents_of(lists: pa.Array) -> Any:
    import pyarrow.compute as pc

    return pc.list_parent_indices(lists)


def _without(rows: Rows, items: list[Any]) -> Rows:
    return rows.where(np.fromiter((each is not FAILED for each in items), np.bool_, len(items)))
