"""Queries that are asked for their answers, and rows that are inserted: what a server does beside its commands.

`pull_query` says which rows of a table a query wants and what it makes of each, `composed_query` what one of several does;
`OneTask` runs a push query's plan over
records as they come; `inserted` makes a record of INSERT VALUES; `row_text` is a row as JSON.
"""

from __future__ import annotations

from ottla.sql.answers.composed import ComposedQuery, composed_query, is_composed
from ottla.sql.answers.inserted import inserted_fields
from ottla.sql.answers.printed import formats_text, record_text
from ottla.sql.answers.pull import PullQuery, ScanRefusedError, Shapes, TableRows, is_light, pull_query
from ottla.sql.answers.rows import ProtobufWriter, RowWriter
from ottla.sql.answers.tasks import OneTask
from ottla.sql.formats import FormatError
from ottla.sql.formats.json import compact_text
from ottla.sql.formats.registry import WITH_SCHEMAS, SchemaRegistry
from ottla.sql.inserting import InsertedRecord, inserted
from ottla.sql.lowering import application_id, query_of_topic, topology_of
from ottla.sql.lowering.serdes import LostRecord
from ottla.sql.planning import plan_select

__all__ = [
    "WITH_SCHEMAS",
    "ComposedQuery",
    "FormatError",
    "InsertedRecord",
    "LostRecord",
    "OneTask",
    "ProtobufWriter",
    "PullQuery",
    "RowWriter",
    "ScanRefusedError",
    "SchemaRegistry",
    "Shapes",
    "TableRows",
    "application_id",
    "compact_text",
    "composed_query",
    "formats_text",
    "inserted",
    "inserted_fields",
    "is_composed",
    "is_light",
    "plan_select",
    "pull_query",
    "query_of_topic",
    "record_text",
    "topology_of",
]
