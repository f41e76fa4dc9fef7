"""A physical plan in words, as `ottla streams explain` prints it: what leaves first, what is read last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ottla.spark.streams.lowering.physical import (
    Aggregated,
    ChainPlan,
    ChangelogSink,
    Columns,
    ColumnSink,
    Counted,
    Decoded,
    Direct,
    Failed,
    InBytes,
    KeysKept,
    Merged,
    NativeStep,
    Operator,
    PhysicalPlan,
    PythonSinks,
    Read,
    RecordsOnly,
    Results,
    Shuffled,
    Stateful,
    TailRecords,
    Written,
    operators,
    taken_by,
)
from ottla.streams import SourceNode

__all__ = ["plan_lines"]


def plan_lines(plan: PhysicalPlan) -> list[str]:
    """Return the plan as lines; what an operator takes stands below it, further in, and once if several take it."""
    return list(_Words(plan).lines(plan.outcome, 0))


class _Words:
    """One plan; what several operators take gets a number."""

    def __init__(self, plan: PhysicalPlan) -> None:
        every = [each for each in operators(plan.outcome) if not _is_silent(each)]
        takers = Counter(id(below) for each in every for below in _below(each))
        self.shared = {id(each): 0 for each in every if takers[id(each)] > 1}

    def lines(self, operator: Operator, depth: int) -> Iterator[str]:
        """Yield the lines of an operator and of what it takes."""
        inset = "  " * depth
        if _is_silent(operator):
            for each in _below(operator):
                yield from self.lines(each, depth)
        elif self.shared.get(id(operator)):
            yield f"{inset}the records of [{self.shared[id(operator)]}]"
        else:
            number = ""
            if id(operator) in self.shared:
                self.shared[id(operator)] = 1 + max(self.shared.values())
                number = f"[{self.shared[id(operator)]}] "
            last, names = self._run(operator)
            yield f"{inset}{number}{_words(operator, names)}"
            for each in _below(last):
                yield from self.lines(each, depth + 1)

    def _run(self, operator: Operator) -> tuple[Operator, list[str]]:
        """Return the first of the column expressions that end with an operator, and all their names, the first one first."""
        names: list[str] = []
        while isinstance(operator, NativeStep | KeysKept):
            names.insert(0, operator.node.name)
            (below,) = _below(operator)
            if id(below) in self.shared or not isinstance(below, NativeStep | KeysKept):
                break
            operator = below
        return operator, names


def _is_silent(operator: Operator) -> bool:
    return isinstance(operator, RecordsOnly | Decoded | InBytes | Written)


def _below(operator: Operator) -> list[Operator]:
    """Return what an operator takes, without what only passes it on; none of sources whose reading it tells itself."""
    if isinstance(operator, Direct | Counted) or (isinstance(operator, Shuffled) and operator.at_source is not None):
        return []
    found: list[Operator] = []
    for each in taken_by(operator):
        found += _below(each) if _is_silent(each) else [each]
    return found


def _words(operator: Operator, names: list[str]) -> str:
    match operator:
        case Read(source):
            return f"read {_topics(source)}"
        case Merged():
            return "union of"
        case NativeStep() | KeysKept():
            return f"Spark's operators: {', '.join(names)}"
        case Columns(_, chain, _):
            return f"Python, in Arrow batches: {_named(chain)}"
        case Counted(Read(source), chain, _):
            return f"read {_topics(source)}, and count in the same tasks{_behind(chain)}"
        case Aggregated(_, node, _, _):
            return f"shuffle by key, and Spark's aggregate: {node.name}"
        case TailRecords(_, tail, _, _):
            return f"rows of {tail.after}"
        case _:
            return _leaving_words(operator)


def _leaving_words(operator: Operator) -> str:
    match operator:
        case ColumnSink(_, sink):
            return f"rows by Spark's operators: {sink.name}"
        case PythonSinks(_, chain):
            return f"rows by Python, in Arrow batches: {_named(chain)}"
        case ChangelogSink():
            return "rows of the changelog by Spark's operators"
        case Failed():
            return "rows that a handler sends elsewhere"
        case Shuffled(_, chain, _, by_key, is_global, at_source):
            how = "to every task" if is_global else "by key" if by_key else "by partition"
            read = f", from the tasks that read {_topics(at_source.source)}" if at_source is not None else ""
            return f"shuffle {how}{read}{_behind(chain)}"
        case Stateful():
            return "tasks with state, in Python"
        case Direct(Read(source), chain):
            return f"direct: tasks that read {_topics(source)} and produce{_behind(chain)}"
        case Results(_, behind):
            return f"the writing tasks make records of results{_behind(behind) if behind is not None else ''}"
        case _:
            raise AssertionError(f"{type(operator).__name__} says nothing")


def _behind(chain: ChainPlan) -> str:
    return f"; Python there: {_named(chain)}" if chain.steps or any(each.sink for each in chain.ends) else ""


def _named(chain: ChainPlan) -> str:
    names = [each.name for each in chain.steps] + [each.name for each in chain.ends if each.sink is not None]
    return ", ".join(dict.fromkeys(names))


def _topics(source: SourceNode) -> str:
    return ", ".join(source.topics) or f"topics like {source.pattern}"
