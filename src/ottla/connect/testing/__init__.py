"""A contract for connectors, for those who write them: what may fail at each step of a task fails, and nothing is lost.

`SourceContract` and `SinkContract` run a connector in a model of a cluster, in memory and in this process: no broker, no
Spark. `docs/connect-plugins.md` shows how a plugin's tests use them.
"""

from ottla.connect.testing.cluster import ModelClient, ModelCluster
from ottla.connect.testing.contract import Contract, Position, Scenario, TaskRuntime, Trouble, Violation
from ottla.connect.testing.sinks import SinkContract
from ottla.connect.testing.sources import SourceContract
from ottla.connect.testing.words import Fault
from ottla.connect.testing.world import Injected, Killed, Life, World

__all__ = [
    "Contract",
    "Fault",
    "Injected",
    "Killed",
    "Life",
    "ModelClient",
    "ModelCluster",
    "Position",
    "Scenario",
    "SinkContract",
    "SourceContract",
    "TaskRuntime",
    "Trouble",
    "Violation",
    "World",
]
