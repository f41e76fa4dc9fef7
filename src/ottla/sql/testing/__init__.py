"""Cases of SQL: statements, records that go in, and all that comes out, without a broker and without Spark.

`run_case` takes statements and input records in one order over all topics, runs each query in the order of the statements
over all of its input, and returns every record that a query or an INSERT has written.
"""

from __future__ import annotations

from ottla.sql.testing.comparing import difference
from ottla.sql.testing.runner import CaseRecord, Engine, Refused, outputs_of, run_case

__all__ = ["CaseRecord", "Engine", "Refused", "difference", "outputs_of", "run_case"]
