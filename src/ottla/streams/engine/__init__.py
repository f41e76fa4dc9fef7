"""The plan's operations in Python: what runs wherever Spark has no operator of its own, one partition at a time.

Records in, records out, state in a `StateBackend`; no clock, no topic, no Spark. `Executor` is the whole of it.
"""

from ottla.streams.engine.interface import Change, Output, Record, StateBackend, StoreChange

__all__ = ["Change", "Output", "Record", "StateBackend", "StoreChange"]
