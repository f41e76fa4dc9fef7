"""The plan's operations in Python: what runs wherever Spark has no operator of its own, one partition at a time.

Records in, records out, state in a `StateBackend`; no clock, no topic, no Spark. `Executor` is the whole of it.
"""

from ottla.streams.engine.column_records import BlockRecords, ChangeColumns, OutputColumns
from ottla.streams.engine.executor import Executor, ProcessingError, standby_nodes
from ottla.streams.engine.interface import (
    COLUMN_ROWS_MIN,
    Change,
    EngineSettings,
    Output,
    Progress,
    Record,
    StateBackend,
    StoreChange,
)
from ottla.streams.engine.resident import ResidentState, kept_memory, memory_over

__all__ = [
    "COLUMN_ROWS_MIN",
    "BlockRecords",
    "Change",
    "ChangeColumns",
    "EngineSettings",
    "Executor",
    "Output",
    "OutputColumns",
    "ProcessingError",
    "Progress",
    "Record",
    "ResidentState",
    "StateBackend",
    "StoreChange",
    "kept_memory",
    "memory_over",
    "standby_nodes",
]
