"""A stage's physical plan: which operators Spark is given for it, as a frozen value; nothing here needs Spark.

Records flow from `Read` to `Outcome`. An operator names what it takes (`records`), so the plan is a graph, and the same
object taken twice is done once. Whether bytes have to become columns or columns bytes between two operators depends on the
types that Spark finds for expressions; `Decoded` and `InBytes` stand where that may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.streams import ProcessorNode, Serde, SinkNode, SourceNode, Stage, StoreSpec, Tail, operations

__all__ = [
    "AS_IT_COMES",
    "INPUT",
    "Aggregated",
    "AsItComes",
    "ChainPlan",
    "ChainStep",
    "ChangelogSink",
    "ColumnSink",
    "Columns",
    "Counted",
    "Decoded",
    "Direct",
    "Ending",
    "Failed",
    "InBytes",
    "KeysKept",
    "Merged",
    "NativeStep",
    "Operator",
    "Outcome",
    "PhysicalPlan",
    "PlannedSerde",
    "PythonSinks",
    "Read",
    "Records",
    "RecordsOnly",
    "Results",
    "Rows",
    "Shuffled",
    "Stateful",
    "TailRecords",
    "Written",
    "operators",
    "taken_by",
]

INPUT = -1
"""The parent of steps that take the records which come in."""


class AsItComes:
    """The serde of the records that come into a chain."""


AS_IT_COMES = AsItComes()
PlannedSerde = Serde | AsItComes | None


# -- runs of Python steps


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A step; `parent` is the index of the step whose records it takes, `branch` which of a Branch's children it is."""

    name: str
    operation: operations.Operation
    parent: int = INPUT
    branch: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """Where records leave a chain, behind the step of index `after`: for a sink, or to go on."""

    name: str
    after: int
    branch: int | None = None
    key: PlannedSerde = None
    value: PlannedSerde = None
    sink: SinkNode | None = None


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """Steps that are one function over Arrow batches, behind the node `root`."""

    root: str
    steps: tuple[ChainStep, ...]
    ends: tuple[Ending, ...]


# -- records on their way


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A source's records, with their times."""

    source: SourceNode


@dataclass(frozen=True, slots=True, eq=False)
class RecordsOnly:
    """Records without the rows that have left already (dead letters), which another operator takes along."""

    records: Records


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """Records in columns."""

    records: Records


@dataclass(frozen=True, slots=True, eq=False)
class InBytes:
    """Records in bytes by these serdes (None: by whichever they have)."""

    records: Records
    key: Serde | None
    value: Serde | None
    step: str


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Several nodes' records as one flow."""

    parts: tuple[Records, ...]
    step: str


@dataclass(frozen=True, slots=True, eq=False)
class NativeStep:
    """A step by Spark's own operators; `branch` says which child of a Branch is meant."""

    records: Records
    node: ProcessorNode
    branch: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class KeysKept:
    """A step that drops records without key."""

    records: Records
    node: ProcessorNode


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What a chain in Python makes, for Spark's own steps."""

    records: Records
    chain: ChainPlan
    node: str


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Counts of the records at a chain's end, taken where a source's are fetched; Spark adds them up."""

    records: Read
    chain: ChainPlan
    windows: object


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """What an aggregate of Spark's own has changed."""

    given: Records | Counted
    node: ProcessorNode
    store: StoreSpec
    has_tail: bool
    """Whether steps follow in the query."""


@dataclass(frozen=True, slots=True, eq=False)
class TailRecords:
    """Rows that tasks with state hand to Spark's expressions; the first tail takes along what leaves as it is."""

    rows: Stateful
    tail: Tail
    others: tuple[str, ...]
    """The topics of the stage's other tails."""
    is_first: bool


Records = Read | RecordsOnly | Decoded | InBytes | Merged | NativeStep | KeysKept | Columns | Aggregated | TailRecords


# -- rows for topics


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSink:
    """A sink by Spark's own operators."""

    records: Records
    sink: SinkNode


@dataclass(frozen=True, slots=True, eq=False)
class PythonSinks:
    """Sinks and actions behind one run of Python steps, in one pass."""

    records: Records
    chain: ChainPlan


@dataclass(frozen=True, slots=True, eq=False)
class ChangelogSink:
    """An aggregate that nothing follows: its changelog's rows."""

    records: Aggregated


@dataclass(frozen=True, slots=True, eq=False)
class Failed:
    """What has left already of the records that an aggregate takes: a pass of its own."""

    records: Records


@dataclass(frozen=True, slots=True, eq=False)
class Shuffled:
    """Records to the tasks with state, through an edge of their core."""

    records: Records
    chain: ChainPlan
    edge: int
    by_key: bool
    is_global: bool
    at_source: Read | None
    """The source where they are fetched, if the chain runs there."""


@dataclass(frozen=True, slots=True, eq=False)
class Stateful:
    """The tasks with state."""

    entries: tuple[Shuffled, ...]


Rows = ColumnSink | PythonSinks | ChangelogSink | Failed | Stateful


# -- how a query ends


@dataclass(frozen=True, slots=True, eq=False)
class Direct:
    """Tasks fetch, run the chain and produce by themselves."""

    source: Read
    chain: ChainPlan


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """An aggregate whose results the writing tasks make into records."""

    aggregate: Aggregated
    behind: ChainPlan | None


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Rows for topics."""

    rows: tuple[Rows, ...]


Outcome = Direct | Results | Written


@dataclass(frozen=True, slots=True, eq=False)
class PhysicalPlan:
    """What Spark is given for a stage, and the output mode that its operators need."""

    stage: Stage
    mode: str
    outcome: Outcome

    @property
    def pushed(self) -> bool:
        """Whether a source hands on something else than the records that were read."""
        return any(
            isinstance(each, Counted) or (isinstance(each, Shuffled) and each.at_source is not None)
            for each in operators(self.outcome)
        )


Operator = Records | Counted | Rows | Shuffled | Outcome


def operators(end: Operator) -> Iterator[Operator]:
    """Yield an operator and all that it takes, each once, from the end to the sources."""
    seen: set[int] = set()
    waiting: list[Operator] = [end]
    while waiting:
        each = waiting.pop(0)
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting.extend(taken_by(each))


def taken_by(operator: Operator) -> list[Operator]:
    """Return what an operator takes, in its order."""
    found: list[Operator] = []
    for name in ("records", "given", "aggregate", "source", "rows"):
        value = getattr(operator, name, None)
        if isinstance(value, tuple):
            found += value
        elif value is not None and not isinstance(value, SourceNode):
            found.append(value)
    for name in ("parts", "entries"):
        found += getattr(operator, name, ())
    return found
