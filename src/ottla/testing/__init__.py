"""Tests of programs that use Kafka, with a real broker: a pytest plugin, and the parts that it is made of.

pytest loads `ottla.testing.plugin` by itself where both are installed: its fixtures are a broker (`kafka`), topics, records,
a schema registry, Connect, SQL, faults (`kafka_faults`) and a broker under a clock that the test turns (`kafka_clock`). The
same parts serve without pytest. Nothing of the broker is imported before a fixture is used, for every run of pytest pays
for what is imported here.
"""

from typing import TYPE_CHECKING

from ottla.base import late_imports

if TYPE_CHECKING:
    from ottla.testing.brokers import OwnBroker, running_broker
    from ottla.testing.clock import KafkaClock, running_clock
    from ottla.testing.faults import Fault, KafkaFaults, running_faults
    from ottla.testing.kafka import Kafka, Place, Record
    from ottla.testing.processes import StartError
    from ottla.testing.services import Connect, SchemaRegistry, ServiceError, Sql

__all__ = [
    "Connect",
    "Fault",
    "Kafka",
    "KafkaClock",
    "KafkaFaults",
    "OwnBroker",
    "Place",
    "Record",
    "SchemaRegistry",
    "ServiceError",
    "Sql",
    "StartError",
    "running_broker",
    "running_clock",
    "running_faults",
]

_HOMES = {
    "Connect": "ottla.testing.services",
    "Fault": "ottla.testing.faults",
    "Kafka": "ottla.testing.kafka",
    "KafkaClock": "ottla.testing.clock",
    "KafkaFaults": "ottla.testing.faults",
    "OwnBroker": "ottla.testing.brokers",
    "Place": "ottla.testing.kafka",
    "Record": "ottla.testing.kafka",
    "SchemaRegistry": "ottla.testing.services",
    "ServiceError": "ottla.testing.services",
    "Sql": "ottla.testing.services",
    "StartError": "ottla.testing.processes",
    "running_broker": "ottla.testing.brokers",
    "running_clock": "ottla.testing.clock",
    "running_faults": "ottla.testing.faults",
}

__getattr__ = late_imports(__name__, _HOMES)
"""Imports what starts and asks a broker when it is first asked for."""
