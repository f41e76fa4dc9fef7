"""Plans as topologies of Streams, by its DSL: rows are tuples, and topics hold them in the formats of the query.

What cannot be read costs a record, what cannot be computed a value; both are told to the processing log.
"""

from __future__ import annotations

import re
from typing import Any

from ottla.sql.lowering import aggregates, joins  # noqa: F401 - they register what they lower
from ottla.sql.lowering.relations import Context, Relation, lower
from ottla.sql.lowering.rows import RowMapper
from ottla.sql.lowering.serdes import Line, key_serde, value_serde
from ottla.sql.lowering.steps import RowProgram, RowSteps, row_time
from ottla.sql.plan import QueryPlan
from ottla.streams import KStream, StreamsBuilder, Topology

__all__ = ["application_id", "query_of_topic", "topology_of"]

_QUERY = r"(C[ST]AS_[A-Za-z0-9_-]+_[0-9]+|[^\Wa-z]+)"
_INTERNAL = (
    r"(?:(?:[LR]_)*(?:Join|KafkaTopic_(?:Left|Right)-Reduce)|KsqlTopic-Reduce|Aggregate-(?:GroupBy|Aggregate-Materialize)"
    r"|K(?:STREAM|TABLE)-[A-Z-]+-[0-9]{10})(?:-[a-z-]+)?-(?:changelog|repartition|topic)"
)
"""What internal topics are called behind their application's id: names that `topology_of` gives, and those of the DSL."""


def application_id(service_id: str, query_id: str) -> str:
    """The application that a query is: its internal topics and its group are named after it."""
    return f"_confluent-ksql-{service_id}query_{query_id}"


def query_of_topic(service_id: str, topic: str) -> str | None:
    """The id of the query of a service whose internal topic this is, None for any other topic.

    An id may begin as another one does (`CTAS_T_1` and `CTAS_T_1-A_5`, since names of sources may have dashes), and a
    service's as another's: so the whole name is read, never its beginning only.
    """
    found = re.fullmatch(f"{re.escape(application_id(service_id, ''))}{_QUERY}-{_INTERNAL}", topic)
    return None if found is None else found[1]


def topology_of(plan: QueryPlan, log: Line | None = None) -> Topology:
    """The topology that runs a plan; `log` is told of rows and values that were lost.

    Records that cannot be read are to be skipped (`skip_undecodable`), as by Kafka's LogAndContinueExceptionHandler.
    """
    context = Context(StreamsBuilder(), plan, log)
    below = lower(plan.root, context)
    stream = _of_table(plan, below, context) if below.table is not None else _of_stream(plan, below, context)
    stream.to(plan.sink.topic, key_serde=key_serde(plan.sink, log), value_serde=value_serde(plan.sink, log))
    return context.builder.build()


def _of_stream(plan: QueryPlan, below: Relation, context: Context) -> KStream[Any, Any]:
    sink = plan.sink
    steps = below.then(
        key=tuple(each.expression for each in plan.key) if plan.rekeyed else None,
        value=tuple(each.expression for each in plan.value),
        time=row_time(sink.schema, sink.timestamp, sink.timestamp_format, strict=plan.strict_times),
    )
    assert steps.stream is not None and steps.program is not None
    return steps.stream.process(RowSteps(steps.program, context.log), name=f"{plan.id}-project")


def _of_table(plan: QueryPlan, below: Relation, context: Context) -> KStream[Any, Any]:
    assert below.table is not None
    fields, sink = below.node.fields, plan.sink
    made = below.table.map_values(RowMapper(tuple(each.expression for each in plan.value), fields, context.log))
    stream = made.to_stream()
    time = row_time(sink.schema, sink.timestamp, sink.timestamp_format, strict=plan.strict_times)
    if time is None:
        return stream
    return stream.process(RowSteps(RowProgram((), time=time), context.log), name=f"{plan.id}-timestamp")
