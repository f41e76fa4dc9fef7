"""A stage of a plan as a streaming DataFrame: `plan_query` is where plans become Spark's.

Expressions that Arrow computes as Spark does become functions, then the stage a physical plan (`planning`), and that a query
(`emission`). Results are in shape OUT (`rows.py`); those without a topic say how many records were skipped, are counted
(`SKIPPED`) and taken out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.streams.lowering.arrow import in_arrow
from ottla.spark.streams.lowering.emission import Cluster, emit
from ottla.spark.streams.lowering.planning import Place, physical
from ottla.spark.streams.lowering.query import SKIPPED, Query
from ottla.spark.streams.lowering.topics import ClusterTopics, TopicRead, Topics
from ottla.streams import Stage, StreamsSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.streams.state.rebuild import Initial

__all__ = ["SKIPPED", "ClusterTopics", "Query", "TopicRead", "Topics", "plan_query"]


def plan_query(
    stage: Stage,
    spark: SparkSession,
    topics: Topics,
    settings: StreamsSettings,
    *,
    initial: Initial | None = None,
    clock: str = "",
    commits_topic: str = "",
    direct: bool = False,
) -> Query:
    """Return a stage's query; raises UnsupportedPlan, with the step's name, for what Spark cannot do.

    `initial` is state for a new checkpoint of a stateful stage; `clock` a file that tells the time, for tests; in
    `commits_topic` tasks with state note how far they have come (`state_positions`), unless it is empty; `direct` says that
    the caller can do with `Query.direct`. The session must not run adaptively (`sessions.SETTINGS`).
    """
    place = Place(in_cluster=isinstance(topics, ClusterTopics), by_tasks=direct)
    plan = physical(stage, settings, arrow=in_arrow(stage, spark), place=place)
    return emit(plan, spark, Cluster(topics, settings, initial, clock, commits_topic))
