"""The console's exports and frames of hostile records: files that every reader of their kind takes."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from ottla.console.records.decoding import DECODERS
from ottla.console.records.exports import FORMATS, exported
from ottla.console.records.reads import Read
from ottla.console.records.rows import Decoders, row_of, shortened
from ottla.console.records.scans import Frame
from tests.hostile_values import NAMES
from tests.values.pages import BYTES
from tests.values.watched import Case, short

LONG_MAX = (1 << 63) - 1
MOMENTS = (-1, 0, 253_402_300_800_000, LONG_MAX, -LONG_MAX - 1)


def cases(*kinds: str) -> Iterator[Case]:
    """Every kind of file."""
    for kind in kinds or FORMATS:
        for data in BYTES:
            for decoder in (None, *DECODERS) if kind == "jsonl" else (None, "hex"):
                record = Read(0, 0, data, data, (("h", data), ("\ud83d", None)))
                yield Case(f"{kind} {decoder} {short(data)}", lambda k=kind, r=record, d=decoder: _file(k, r, d), ())
        for moment in MOMENTS:
            record = Read(LONG_MAX, moment, b"k", b"v", ())
            yield Case(f"{kind} at {moment}", lambda k=kind, r=record: _file(k, r, None), ())
        for name in NAMES:
            record = Read(0, 0, name.encode(), name.encode(), ((name, name.encode()),))
            yield Case(f"{kind} of {name}", lambda k=kind, r=record: _file(k, r, None), ())


def _file(kind: str, record: Read, decoder: str | None) -> None:
    whole, short_ = Decoders(decoder, decoder), shortened(record)
    rows = [row_of(0, short_, whole, whole=each) for each in (True, False)]

    async def frames() -> AsyncGenerator[Frame, None]:
        yield {"type": "rows", "rows": rows}
        yield {"type": "done", "limit": "\ud83d"}

    async def made() -> bytes:
        return b"".join([piece async for piece in exported(frames(), kind)])

    data = asyncio.run(made())
    if kind == "jsonl":
        lines = data.decode().split("\n")
        found = [json.loads(line, parse_constant=_no_number, parse_float=str, parse_int=str) for line in lines[:-1]]
        assert len(found) == len(rows) + 1 and found[-1].keys() == {"error"}, len(found)
    elif kind == "csv":
        csv.field_size_limit(1 << 30)
        cells = list(csv.reader(io.StringIO(data.decode(), newline="")))
        assert [len(each) for each in cells] == [6, 6, 6, 1], cells[:3]
    else:
        import pyarrow.parquet as pq

        table: Any = pq.read_table(io.BytesIO(data))
        assert table.num_rows == len(rows)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
