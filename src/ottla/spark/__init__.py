"""Topics as Spark DataFrames, in batch and streaming, without a jar; and what runs on that.

`format("ottla")` reads and writes topics of Ottla or any Kafka cluster, with the columns and options of Spark's own Kafka
connector: raw record batches come and go through `client` and become Arrow columns here. `session` builds a Spark
session that suits it, `StreamsApplication` runs a plan of `streams`. PySpark is imported by what needs it, not by
this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base import late_imports
from ottla.spark.java import JAVA_VERSION_MIN, Java, find_java, java_missing
from ottla.spark.requirements import SparkMissingError, check_spark, spark_missing

if TYPE_CHECKING:
    from ottla.connect.tasks import run_on_model
    from ottla.spark.connect.jobs import SparkJobs, ThreadJobs, prepare_local_python
    from ottla.spark.connect.mirror_maker import MirrorMaker
    from ottla.spark.connect.runner import SparkTaskRunner
    from ottla.spark.connect.worker import ConnectWorker, distributed_herder
    from ottla.spark.continuous.applications import StreamsService
    from ottla.spark.continuous.jobs import ThreadHostJobs
    from ottla.spark.continuous.mode import execution_mode
    from ottla.spark.continuous.promotion import Promotion, promote
    from ottla.spark.continuous.web import ServiceServer
    from ottla.spark.phases import phases_told_by
    from ottla.spark.sessions import register, session
    from ottla.spark.shipping import ship_by_value, ship_module
    from ottla.spark.source.datasource import OttlaDataSource
    from ottla.spark.source.writer import update_writer
    from ottla.spark.streams.backlog import waiting_records
    from ottla.spark.streams.delivery import Delivered, Delivery, deliver, delivery_writer
    from ottla.spark.streams.lowering.planning import physical_text
    from ottla.spark.streams.preparation import Checkpoint
    from ottla.spark.streams.restarts import Failure
    from ottla.spark.streams.run import StreamsApplication
    from ottla.spark.streams.states import State
    from ottla.spark.streams.supervisor import OnError
    from ottla.spark.streams.test_driver import TestInputTopic, TestOutputTopic, TestRecord, TopologyTestDriver
    from ottla.spark.streams.web import ApplicationServer, lookup
    from ottla.spark.streams.web_door import Door, door_of

__all__ = [
    "JAVA_VERSION_MIN",
    "ApplicationServer",
    "Checkpoint",
    "ConnectWorker",
    "Delivered",
    "Delivery",
    "Door",
    "Failure",
    "Java",
    "MirrorMaker",
    "OnError",
    "OttlaDataSource",
    "Promotion",
    "ServiceServer",
    "SparkJobs",
    "SparkMissingError",
    "SparkTaskRunner",
    "State",
    "StreamsApplication",
    "StreamsService",
    "TestInputTopic",
    "TestOutputTopic",
    "TestRecord",
    "ThreadHostJobs",
    "ThreadJobs",
    "TopologyTestDriver",
    "check_spark",
    "deliver",
    "delivery_writer",
    "distributed_herder",
    "door_of",
    "execution_mode",
    "find_java",
    "java_missing",
    "lookup",
    "phases_told_by",
    "physical_text",
    "prepare_local_python",
    "promote",
    "register",
    "run_on_model",
    "session",
    "ship_by_value",
    "ship_module",
    "spark_missing",
    "update_writer",
    "waiting_records",
]

_HOMES = {
    "ConnectWorker": "ottla.spark.connect.worker",
    "distributed_herder": "ottla.spark.connect.worker",
    "MirrorMaker": "ottla.spark.connect.mirror_maker",
    "SparkJobs": "ottla.spark.connect.jobs",
    "SparkTaskRunner": "ottla.spark.connect.runner",
    "ThreadJobs": "ottla.spark.connect.jobs",
    "prepare_local_python": "ottla.spark.connect.jobs",
    "TestInputTopic": "ottla.spark.streams.test_driver",
    "TestOutputTopic": "ottla.spark.streams.test_driver",
    "TestRecord": "ottla.spark.streams.test_driver",
    "TopologyTestDriver": "ottla.spark.streams.test_driver",
    "physical_text": "ottla.spark.streams.lowering.planning",
    "ship_module": "ottla.spark.shipping",
    "ship_by_value": "ottla.spark.shipping",
    "ServiceServer": "ottla.spark.continuous.web",
    "execution_mode": "ottla.spark.continuous.mode",
    "Promotion": "ottla.spark.continuous.promotion",
    "promote": "ottla.spark.continuous.promotion",
    "Door": "ottla.spark.streams.web_door",
    "door_of": "ottla.spark.streams.web_door",
    "lookup": "ottla.spark.streams.web",
    "waiting_records": "ottla.spark.streams.backlog",
    "Checkpoint": "ottla.spark.streams.preparation",
    "ApplicationServer": "ottla.spark.streams.web",
    "StreamsApplication": "ottla.spark.streams.run",
    "StreamsService": "ottla.spark.continuous.applications",
    "ThreadHostJobs": "ottla.spark.continuous.jobs",
    "State": "ottla.spark.streams.states",
    "OnError": "ottla.spark.streams.supervisor",
    "Failure": "ottla.spark.streams.restarts",
    "Delivered": "ottla.spark.streams.delivery",
    "Delivery": "ottla.spark.streams.delivery",
    "deliver": "ottla.spark.streams.delivery",
    "delivery_writer": "ottla.spark.streams.delivery",
    "OttlaDataSource": "ottla.spark.source.datasource",
    "register": "ottla.spark.sessions",
    "run_on_model": "ottla.connect.tasks",
    "phases_told_by": "ottla.spark.phases",
    "session": "ottla.spark.sessions",
    "update_writer": "ottla.spark.source.writer",
}

__getattr__ = late_imports(__name__, _HOMES)
"""Imports what needs PySpark when it is first asked for."""
