"""Random histories of a table that the JDBC source reads, a topic, and a table that the JDBC sink writes.

`python -m tests.connectors.jdbc.machine --seconds N` (`make fuzz-jdbc`) looks for what nobody thought of.
"""
