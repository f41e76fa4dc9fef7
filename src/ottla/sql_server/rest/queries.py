"""Queries over HTTP: `/query` and `/query-stream`, pull and push, and PRINT; `/close-query`."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

from ottla.base import OttlaError
from ottla.http import Reply, Request, StreamedReply
from ottla.sql import SqlError, split_statements
from ottla.sql.answers import RowWriter
from ottla.sql.expressions import Row
from ottla.sql.tree import statements as s
from ottla.sql.types import SqlType
from ottla.sql_server.errors import BAD_REQUEST, BAD_STATEMENT, QUERY_ENDPOINT, SERVER_ERROR, StatementError
from ottla.sql_server.rest.bodies import StatementBody, json_object, statement_body
from ottla.sql_server.rest.serving import V1, answer
from ottla.sql_server.server import SqlServer

__all__ = ["Queries"]

DELIMITED, JSON = "application/vnd.ksqlapi.delimited.v1", "application/json"
Rows = AsyncGenerator[list[Row], None]


class Form(Protocol):
    """How an answer is written: ksqlDB has three ways."""

    content_type: str

    def begin(self, header: Header) -> str:
        """What comes before the rows."""
        ...

    def row(self, text: str) -> str:
        """A row, which is a JSON array already."""
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


class ObjectForm:
    """`/query`: an array of objects, each with a header, a row or the last message."""

    content_type = V1

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


class DelimitedForm:
    """`/query-stream`: a line of metadata, then a line for each row."""

    content_type = DELIMITED

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
        delimited = DELIMITED in request.headers.get("Accept", "")
        return await self._answered(body, DelimitedForm() if delimited else ObjectForm())

    async def query_stream(self, request: Request) -> Reply | StreamedReply:
        """`POST /query-stream`."""
        body = statement_body(await request.read(), "sql", "properties")
        accepted = request.headers.get("Accept", "")
        form: Form = DelimitedForm()
        if DELIMITED not in accepted:
            form = ObjectForm() if V1 in accepted else ArrayForm() if JSON in accepted else form
        return await self._answered(body, form)

    async def close(self, request: Request) -> Reply:
        """`POST /close-query`."""
        id_ = json_object(await request.read()).get("queryId")
        if not isinstance(id_, str):
            raise StatementError(BAD_REQUEST, 'No queryId provided: {"queryId": "…"}')
        if not self._server.pushing.end(id_):
            raise StatementError(BAD_REQUEST, f"No query with id {id_}")
        return answer(request, {})

    async def _answered(self, body: StatementBody, form: Form) -> StreamedReply:
        statement, text = self._parsed(body)
        try:
            if isinstance(statement, s.PrintTopic):
                return await self._printed(statement)
            assert isinstance(statement, s.QueryStatement), text
            if statement.query.pull:
                return await self._pulled(statement, text, body, form)
            return await self._pushed(statement, text, body, form)
        except SqlError as error:
            raise StatementError(BAD_STATEMENT, str(error), text) from error
        except StatementError as error:
            error.statement = error.statement or text
            raise

    def _parsed(self, body: StatementBody) -> tuple[s.Statement, str]:
        """The one query of a body, which SET and DEFINE may stand before; raises StatementError."""
        statements: list[tuple[s.Statement, str]] = []
        try:
            source = body.text.strip()
            for each in split_statements(source if source.endswith(";") else f"{source};"):
                shown = each.shown(body.variables)
                statement = each.parse(self._server.state.catalogue.types, body.variables)
                if isinstance(statement, s.SetProperty) and not statement.system:
                    body.properties[statement.name] = statement.value
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

    async def _pulled(self, statement: s.QueryStatement, text: str, body: StatementBody, form: Form) -> StreamedReply:
        found = await self._server.pulling.answer(statement.query, text, body.properties)
        query = found.query
        header = Header(f"query_{uuid.uuid4().hex}", query.names, query.types, query.schema_text, found.position)
        first = await _first(found.rows)
        return StreamedReply(
            self._written(header, found.rows, first, form, lambda: "Query Completed"), form.content_type
        )

    async def _pushed(self, statement: s.QueryStatement, text: str, body: StatementBody, form: Form) -> StreamedReply:
        found, rows = self._server.pushing.begin(statement.query, text, body.properties)
        try:
            first = await _first(rows)
        except BaseException:
            self._server.pushing.queries.pop(found.id, None)
            raise
        header = Header(found.id, found.names, found.types, found.schema_text)

        def message() -> str:
            return "Limit Reached" if found.reached_limit else "Query Completed"

        return StreamedReply(self._written(header, rows, first, form, message), form.content_type)

    async def _written(
        self, header: Header, rows: Rows, first: list[Row] | None, form: Form, message: Callable[[], str]
    ) -> AsyncGenerator[bytes, None]:
        writer = RowWriter(header.types)
        try:
            try:
                yield (form.begin(header) + _texts(first or [], writer, form)).encode()
                async for batch in rows:
                    if batch:
                        yield _texts(batch, writer, form).encode()
                end = form.end(message())
            except StatementError as error:
                end = form.failure(error)
            except SqlError as error:
                end = form.failure(StatementError(BAD_STATEMENT, str(error)))
            except OttlaError as error:
                end = form.failure(StatementError(SERVER_ERROR, str(error)))
            if end:
                yield end.encode()
        finally:
            await rows.aclose()

    async def _printed(self, statement: s.PrintTopic) -> StreamedReply:
        lines = self._server.pushing.printed(statement)
        await anext(lines)

        async def encoded() -> AsyncGenerator[bytes, None]:
            try:
                async for line in lines:
                    yield line.encode()
            finally:
                await lines.aclose()

        return StreamedReply(encoded(), "text/plain; charset=utf-8")


async def _first(rows: Rows) -> list[Row] | None:
    """The first rows, so that what stands against a query is told by the answer's status."""
    return await anext(rows, None)


def _texts(rows: list[Row], writer: RowWriter, form: Form) -> str:
    return "".join(form.row(writer.text(each)) for each in rows)
