"""Topics as Spark DataFrames, in batch and streaming, without a jar; and what runs on that.

`format("ottla")` reads and writes topics of Ottla or any Kafka cluster, with the columns and options of Spark's own Kafka
connector: raw record batches come and go through the `client` room and become Arrow columns here. `session` builds a Spark
session that suits it, `StreamsApplication` runs a plan of the `streams` room. PySpark is imported by what needs it, not by
this face.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.spark.java import JAVA_VERSION_MIN, Java, find_java, java_missing

if TYPE_CHECKING:
    from ottla.spark.datasource import OttlaDataSource
    from ottla.spark.delivery import Delivered, Delivery, deliver, delivery_writer
    from ottla.spark.preparation import Checkpoint
    from ottla.spark.restarts import Failure
    from ottla.spark.run import StreamsApplication
    from ottla.spark.sessions import register, session
    from ottla.spark.shipping import ship_module
    from ottla.spark.sink import update_writer
    from ottla.spark.states import State
    from ottla.spark.supervisor import OnError
    from ottla.spark.tasks.jobs import SparkJobs, ThreadJobs
    from ottla.spark.tasks.runner import SparkTaskRunner
    from ottla.spark.tasks.worker import ConnectWorker, distributed_herder
    from ottla.spark.test_driver import TestInputTopic, TestOutputTopic, TestRecord, TopologyTestDriver
    from ottla.spark.web import ApplicationServer, lookup

__all__ = [
    "JAVA_VERSION_MIN",
    "ApplicationServer",
    "Checkpoint",
    "ConnectWorker",
    "Delivered",
    "Delivery",
    "Failure",
    "Java",
    "OnError",
    "OttlaDataSource",
    "SparkJobs",
    "SparkTaskRunner",
    "State",
    "StreamsApplication",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "ThreadJobs",
    "TopologyTestDriver",
    "deliver",
    "delivery_writer",
    "distributed_herder",
    "find_java",
    "java_missing",
    "lookup",
    "register",
    "session",
    "ship_module",
    "update_writer",
]

_HOMES = {
    "ConnectWorker": "ottla.spark.tasks.worker",
    "distributed_herder": "ottla.spark.tasks.worker",
    "SparkJobs": "ottla.spark.tasks.jobs",
    "SparkTaskRunner": "ottla.spark.tasks.runner",
    "ThreadJobs": "ottla.spark.tasks.jobs",
    "TestInputTopic": "ottla.spark.test_driver",
    "TestOutputTopic": "ottla.spark.test_driver",
    "TestRecord": "ottla.spark.test_driver",
    "TopologyTestDriver": "ottla.spark.test_driver",
    "ship_module": "ottla.spark.shipping",
    "lookup": "ottla.spark.web",
    "Checkpoint": "ottla.spark.preparation",
    "ApplicationServer": "ottla.spark.web",
    "StreamsApplication": "ottla.spark.run",
    "State": "ottla.spark.states",
    "OnError": "ottla.spark.supervisor",
    "Failure": "ottla.spark.restarts",
    "Delivered": "ottla.spark.delivery",
    "Delivery": "ottla.spark.delivery",
    "deliver": "ottla.spark.delivery",
    "delivery_writer": "ottla.spark.delivery",
    "OttlaDataSource": "ottla.spark.datasource",
    "register": "ottla.spark.sessions",
    "session": "ottla.spark.sessions",
    "update_writer": "ottla.spark.sink",
}


def __getattr__(name: str) -> Any:
    """Import what needs PySpark when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
