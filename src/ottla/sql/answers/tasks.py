"""A query's plan run as one task over all partitions of what it reads: for push queries, whose state ends with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ottla.sql.errors import SqlError
from ottla.sql.expressions import Row
from ottla.sql.lowering import topology_of
from ottla.sql.lowering.serdes import Line
from ottla.sql.plan import QueryPlan
from ottla.streams import EngineSettings, Executor, Output, ProcessingError, Record, SourceNode

HOPS_MAX = 1_000_000
"""Records that one record may lead to on their way through repartition topics."""


class _Blobs(dict[str, bytes]):
    """State between records; it is nowhere else."""

    def put(self, blob: str, data: bytes | None) -> None:
        if data is None:
            self.pop(blob, None)
        else:
            self[blob] = data


class OneTask:
    """Takes records, and gives the rows that the query makes of them, each update by itself."""

    def __init__(self, plan: QueryPlan, log: Line | None = None) -> None:
        """`log` is told of rows and values that were lost."""
        topology = topology_of(plan, log)
        self._id = plan.id
        self._executor = Executor(
            topology,
            topology.nodes.keys(),
            _Blobs(),
            task=0,
            settings=EngineSettings(cache=False, skip_undecodable=True),
            application_id=plan.id,
        )
        internal = {topic: f"{plan.id}-{topic}" for topic in topology.repartition_topics}
        self._entries = {
            internal.get(topic, topic): name
            for name, node in topology.nodes.items()
            if isinstance(node, SourceNode)
            for topic in node.topics
        }
        self._internal = frozenset(internal.values())
        self.topics = tuple(sorted(self._entries.keys() - self._internal))
        """The topics that it reads."""
        self._decode = plan.sink.layout.value_codec(plan.sink.schema).decode
        self._width = len(plan.sink.schema.value)

    def rows(self, records: Iterable[Record]) -> Iterator[Row]:
        """What the query makes of records, in their order; a row that went away is all null. Raises SqlError."""
        for record in records:
            try:
                outputs = list(self._taken(record))
            except ProcessingError as error:
                raise error.__cause__ if isinstance(error.__cause__, SqlError) else SqlError(str(error)) from error
            for output in outputs:
                row = self._decode(output.value)
                yield (None,) * self._width if row is None else row

    def _taken(self, record: Record) -> Iterator[Output]:
        waiting = deque([record])
        for _ in range(HOPS_MAX):
            if not waiting:
                return
            each = waiting.popleft()
            self._executor.process(self._entries[each.topic], (each,))
            for output in self._executor.finish_batch()[0]:
                if output.topic in self._internal:
                    waiting.append(Record(output.key, output.value, output.timestamp, output.headers, output.topic))
                else:
                    yield output
