"""Queries over HTTP: `/query` and `/query-stream`, pull and push, and PRINT; `/close-query`."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ottla.base import ErrorCode, KafkaError, OttlaError
from ottla.http import Reply, Request, StreamedReply, while_there
from ottla.sql import SqlError, StatementText, split_statements
from ottla.sql.answers import ProtobufWriter, RowWriter
from ottla.sql.expressions import Row
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s
from ottla.sql.types import SqlType
from ottla.sql_server.errors import BAD_REQUEST, BAD_STATEMENT, QUERY_ENDPOINT, SERVER_ERROR, StatementError
from ottla.sql_server.pull import BATCH
from ottla.sql_server.rest.bodies import StatementBody, json_object, statement_body
from ottla.sql_server.rest.serving import V1, answer, utf8
from ottla.sql_server.server import SqlServer
from ottla.sql_server.session_properties import put
from ottla.sql_server.turns import Turns

__all__ = ["Begun", "Queries", "failure_of"]

DELIMITED, JSON = "application/vnd.ksqlapi.delimited.v1", "application/json"
PROTOBUF = "application/vnd.ksql.v1+protobuf"
AT_ONCE = 8
"""Rows that are written on the loop; more are written in a thread."""
GATHERING_SECONDS_MAX = 0.1
"""For rows that may be all, before an answer begins without the rest."""
Rows = AsyncGenerator[list[Row], None]


class Writer(Protocol):
    """Writes rows."""

    def text(self, row: Row) -> str:
        """A row as it stands in the answer."""
        ...


class Form(Protocol):
    """How an answer is written: ksqlDB has four ways."""

    content_type: str

    def writer(self, header: Header) -> Writer:
        """What makes texts of rows; raises SqlError for columns that cannot be told."""
        ...

    def begin(self, header: Header) -> str:
        """What comes before the rows."""
        ...

    def row(self, text: str) -> str:
        """A row, which a writer has made a text of."""
        ...

    def end(self, message: str) -> str:
        """What comes behind the last row."""
        ...

    def failure(self, error: StatementError) -> str:
        """What comes in the place of further rows."""
        ...


class Header:
    """What comes before the rows."""

    def __init__(
        self,
        id_: str,
        names: tuple[str, ...],
        types: tuple[SqlType, ...],
        schema: str,
        position: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self.id, self.names, self.types, self.schema, self.position = id_, names, types, schema, position


@dataclass(frozen=True, slots=True)
class Begun:
    """A query that has begun; its first rows are there, so that what stands against it is told by the answer's status."""

    header: Header
    rows: Rows
    first: list[Row] | None
    message: Callable[[], str]
    """What is told behind the last row."""
    is_small: bool = False
    """Whether the first rows are all: such an answer leaves in one piece."""


class ObjectForm:
    """`/query`: an array of objects, each with a header, a row or the last message."""

    content_type = V1

    def writer(self, header: Header) -> Writer:
        """Arrays."""
        return RowWriter(header.types)

    def begin(self, header: Header) -> str:
        """The header."""
        told: dict[str, Any] = {"queryId": header.id, "schema": header.schema}
        if header.position is not None:
            told["position"] = header.position
        return f"[{_compact({'header': told})}"

    def row(self, text: str) -> str:
        """A row."""
        return f',\n{{"row":{{"columns":{text}}}}}'

    def end(self, message: str) -> str:
        """The last message."""
        return f",\n{_compact({'finalMessage': message})}]\n"

    def failure(self, error: StatementError) -> str:
        """What went wrong behind the header."""
        return f",\n{_compact({'errorMessage': error.body()})}]\n"


class ProtobufForm(ObjectForm):
    """The array of objects whose rows are Protobuf messages in base64, and whose header has their schema."""

    content_type = PROTOBUF

    def __init__(self) -> None:
        self._schema = ""

    def writer(self, header: Header) -> Writer:
        """Messages."""
        made = ProtobufWriter(header.names, header.types)
        self._schema = made.schema
        return made

    def begin(self, header: Header) -> str:
        """The header."""
        told: dict[str, Any] = {"queryId": header.id, "protoSchema": self._schema}
        if header.position is not None:
            told["position"] = header.position
        return f"[{_compact({'header': told})}"

    def row(self, text: str) -> str:
        """A row."""
        return f',\n{{"row":{{"protobufBytes":"{text}"}}}}'


class DelimitedForm:
    """`/query-stream`: a line of metadata, then a line for each row."""

    content_type = DELIMITED

    def writer(self, header: Header) -> Writer:
        """Arrays."""
        return RowWriter(header.types)

    def begin(self, header: Header) -> str:
        """The metadata."""
        return f"{_compact(_metadata(header))}\n"

    def row(self, text: str) -> str:
        """A row."""
        return f"{text}\n"

    def end(self, message: str) -> str:
        """Nothing: the end of the stream is the end."""
        return ""

    def failure(self, error: StatementError) -> str:
        """What went wrong behind the metadata."""
        return f"{_compact(error.body())}\n"


class ArrayForm(DelimitedForm):
    """`/query-stream` as one JSON array: the metadata, then the rows."""

    content_type = JSON

    def begin(self, header: Header) -> str:
        """The metadata."""
        return f"[{_compact(_metadata(header))}"

    def row(self, text: str) -> str:
        """A row."""
        return f",\n{text}"

    def end(self, message: str) -> str:
        """The array's end."""
        return "]"

    def failure(self, error: StatementError) -> str:
        """What went wrong, and the array's end."""
        return f",\n{_compact(error.body())}]"


def _metadata(header: Header) -> dict[str, Any]:
    told: dict[str, Any] = {
        "queryId": header.id,
        "columnNames": list(header.names),
        "columnTypes": list(map(str, header.types)),
    }
    if header.position is not None:
        told["position"] = header.position
    return told


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Queries:
    """Answers queries."""

    def __init__(self, server: SqlServer) -> None:
        self._server = server

    async def query(self, request: Request) -> Reply | StreamedReply:
        """`POST /query`."""
        body = statement_body(await request.read(), "ksql", "streamsProperties")
        accepted = request.headers.get("Accept", "")
        form: Form = DelimitedForm() if DELIMITED in accepted else ObjectForm()
        return await self._answered(request, body, ProtobufForm() if PROTOBUF in accepted else form)

    async def query_stream(self, request: Request) -> Reply | StreamedReply:
        """`POST /query-stream`."""
        body = statement_body(await request.read(), "sql", "properties")
        accepted = request.headers.get("Accept", "")
        form: Form = DelimitedForm()
        if PROTOBUF in accepted:
            form = ProtobufForm()
        elif DELIMITED not in accepted:
            form = ObjectForm() if V1 in accepted else ArrayForm() if JSON in accepted else form
        return await self._answered(request, body, form)

    async def close(self, request: Request) -> Reply:
        """`POST /close-query`."""
        id_ = json_object(await request.read()).get("queryId")
        if not isinstance(id_, str):
            raise StatementError(BAD_REQUEST, 'No queryId provided: {"queryId": "…"}')
        if not self._server.pushing.end(id_):
            raise StatementError(BAD_REQUEST, f"No query with id {id_}")
        return answer(request, {})

    async def _answered(self, request: Request, body: StatementBody, form: Form) -> Reply | StreamedReply:
        statement, text = await self.parsed(body)
        if isinstance(statement, s.PrintTopic):
            lines = await while_there(request, self.printed(statement, text))
            return StreamedReply(_encoded(lines), "text/plain; charset=utf-8")
        begun = await while_there(request, self.begun(statement, text, body))
        try:
            writer = form.writer(begun.header)
        except SqlError as error:
            await begun.rows.aclose()
            raise StatementError(BAD_STATEMENT, str(error), text) from error
        parts = _written(begun, form, writer, self._server.turns)
        if begun.is_small:
            return Reply(b"".join([each async for each in parts]), form.content_type)
        return StreamedReply(parts, form.content_type)

    async def begun(self, statement: s.Statement, text: str, body: StatementBody) -> Begun:
        """Begin a query; raises StatementError."""
        assert isinstance(statement, s.QueryStatement), text
        begin = self._pulled if statement.query.pull else self._pushed
        with _told(text):
            return await begin(statement.query, text, body)

    async def printed(self, statement: s.PrintTopic, text: str) -> AsyncGenerator[str, None]:
        """Begin to print a topic; raises StatementError."""
        lines = self._server.pushing.printed(statement)
        with _told(text):
            await anext(lines)
        return lines

    async def parsed(self, body: StatementBody) -> tuple[s.Statement, str]:
        """The one query of a body, which SET and DEFINE may stand before; raises StatementError."""
        statements: list[tuple[s.Statement, str]] = []
        try:
            source = body.text.strip()
            source = source if source.endswith(";") else f"{source};"
            types = self._server.state.catalogue.types
            for each in await self._server.turns.read(source, lambda: split_statements(source)):
                await asyncio.sleep(0)
                shown, statement = await self._server.turns.read(source, partial(_read, each, body, types))
                if isinstance(statement, s.SetProperty) and not statement.system:
                    put(body.properties, statement.name, statement.value)
                else:
                    statements.append((statement, shown))
        except SqlError as error:
            raise StatementError(BAD_STATEMENT, str(error), body.text) from None
        if len(statements) != 1:
            raise StatementError(
                BAD_STATEMENT, f"Expected exactly one KSQL statement; found {len(statements)} instead", body.text
            )
        if not isinstance(statements[0][0], s.QueryStatement | s.PrintTopic):
            what = type(statements[0][0]).__name__
            raise StatementError(
                QUERY_ENDPOINT, f"Statement type `{what}` not supported for this resource; use /ksql", body.text
            )
        return statements[0]

    async def _pulled(self, query: q.Query, text: str, body: StatementBody) -> Begun:
        found = await self._server.pulling.answer(query, text, body.properties)
        asked = found.query
        header = Header(f"query_{uuid.uuid4().hex}", asked.names, asked.types, asked.schema_text, found.position)
        first = await anext(found.rows, None)
        is_small, until_s = first is None, time.monotonic() + GATHERING_SECONDS_MAX
        while first is not None and len(first) < BATCH and not is_small and time.monotonic() < until_s:
            more = await anext(found.rows, None)
            first, is_small = first + (more or []), more is None
        return Begun(header, found.rows, first, lambda: "Query Completed", found.of_table and is_small)

    async def _pushed(self, query: q.Query, text: str, body: StatementBody) -> Begun:
        found, rows = await self._server.pushing.begin(query, text, body.properties)
        try:
            first = await anext(rows, None)
        except BaseException:
            self._server.pushing.queries.pop(found.id, None)
            raise

        def message() -> str:
            return "Limit Reached" if found.reached_limit else "Query Completed"

        return Begun(Header(found.id, found.names, found.types, found.schema_text), rows, first, message)


def _read(text: StatementText, body: StatementBody, types: Mapping[str, SqlType]) -> tuple[str, s.Statement]:
    return text.shown(body.variables), text.parse(types, body.variables)


async def _written(begun: Begun, form: Form, writer: Writer, turns: Turns) -> AsyncGenerator[bytes, None]:
    rows, start = begun.rows, form.begin(begun.header)

    async def written(batch: list[Row]) -> str:
        if len(batch) <= AT_ONCE:
            return _texts(batch, writer, form)
        return await turns.run(lambda: _texts(batch, writer, form))

    try:
        try:
            first = await written(begun.first or [])
            yield utf8(start + first)
            start = ""
            async for batch in rows:
                if batch:
                    yield utf8(await written(batch))
            end = form.end(begun.message())
        except OttlaError as error:
            end = start + form.failure(failure_of(error))
        if end:
            yield utf8(end)
    finally:
        await rows.aclose()


async def _encoded(lines: AsyncGenerator[str, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for line in lines:
            yield utf8(line)
    finally:
        await lines.aclose()


def failure_of(error: OttlaError) -> StatementError:
    """Return what a client is told of an error behind the first rows."""
    if isinstance(error, StatementError):
        return error
    return StatementError(BAD_STATEMENT if isinstance(error, SqlError) else SERVER_ERROR, str(error))


@contextmanager
def _told(text: str) -> Iterator[None]:
    """Have what is refused in the block tell its statement."""
    try:
        yield
    except SqlError as error:
        raise StatementError(BAD_STATEMENT, str(error), text) from error
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise
        raise StatementError(BAD_STATEMENT, str(error), text) from error
    except StatementError as error:
        error.statement = error.statement or text
        raise


def _texts(rows: list[Row], writer: Writer, form: Form) -> str:
    return "".join(form.row(writer.text(each)) for each in rows)
