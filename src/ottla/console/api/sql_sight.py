"""What somebody may have a SQL server do and tell: statements are judged by the brokers' rights of the user, then by masks.

The server works under its own principal, so nothing is left to it: which topics streams and tables are over is asked first,
with statements of the console's own, and so is of which others a stream or table is made, since a copy of what is masked is
masked. What cannot be told is refused. What one may not know looks like what is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.admin import RestError, Worker
from ottla.client import NewTopic, create_topics
from ottla.console.api.endpoints import need
from ottla.console.places import Place
from ottla.console.rights import Rights
from ottla.console.shown_settings import holds_secret, shown_settings
from ottla.console.sql_statements import CHANGE, OTHER, QUERY, READ, Needs, Statement, judged
from ottla.http import HttpError
from ottla.sql import SqlError, quoted

__all__ = ["MASKED", "Sight", "answers_of", "sight_of", "sql_server_of", "statement_for"]

FORBIDDEN, MASKED = 40300, 40302
SOURCES_MAX = 200
"""Of how many streams and tables it is asked what they are made of, for one statement."""
HIDDEN = "•••"
TEXTS = ("queryString", "statementText", "statement")
"""Where answers quote statements."""
ONE = {
    QUERY: "one query is expected: SELECT …",
    READ: "only LIST, SHOW, DESCRIBE and EXPLAIN are read here, one at a time",
    CHANGE: "only one statement that changes something is run here",
}


def sql_server_of(place: Place) -> Worker:
    """Return the SQL server; raises HttpError where none is named."""
    if place.sql is None:
        raise HttpError(404, "No SQL server is named: start the console with ottla.console.sql.url")
    return place.sql


async def answers_of(server: Worker, statement: str) -> Any:
    """Return what a server answers to statements; raises RestError."""
    given = {"ksql": statement, "streamsProperties": {}}
    return await asyncio.to_thread(server.ask, "POST", "/ksql", given)


@dataclass
class Sight:
    """What there is at a SQL server, and how much of it somebody may see; `rights` are None where nobody logs in."""

    place: Place
    rights: Rights | None
    topics: Mapping[str, str]
    """The topic of each stream and table."""
    queries: Mapping[str, Mapping[str, Any]]
    """What runs, by id."""
    _made_of: dict[str, frozenset[str] | None] = field(default_factory=dict)

    @property
    def sees_all(self) -> bool:
        """True where nothing has to be left out."""
        return self.rights is None and not self.place.is_masked

    def knows(self, name: str) -> bool:
        """Return whether a stream or table is there, as far as one may know."""
        return name in self.topics and self.may(self.topics[name], "DESCRIBE")

    def may(self, topic: str, operation: str) -> bool:
        """Return whether the brokers let one do something with a topic; DESCRIBE comes with every other operation."""
        if self.rights is None:
            return True
        allowed = self.rights.topics.get(topic, frozenset())
        return bool(allowed) if operation == "DESCRIBE" else operation in allowed

    async def hidden_topic(self, names: Iterable[str]) -> str | None:
        """Return a topic of which something is hidden, and whose records are in one of these, or in what they are made of.

        Raises HttpError where that cannot be told.
        """
        if not self.place.is_masked:
            return None
        waiting, looked = list(names), set[str]()
        while waiting:
            name = waiting.pop()
            if name in looked:
                continue
            looked.add(name)
            if len(looked) > SOURCES_MAX:
                raise _untold(f"it is made of more than {SOURCES_MAX} others")
            topic = self.topics.get(name)
            if topic is None:
                raise _untold(f"{name} is not there")
            if self.place.hidden(topic) is not None:
                return topic
            waiting += [
                each for each, over in self.topics.items() if over == topic
            ]  # what fills it for others fills it
            found = await self._origins(name, topic)
            if found is None:
                raise _untold(f"of what {name} is made is not known")
            waiting += found
        return None

    async def _origins(self, name: str, topic: str) -> frozenset[str] | None:
        """Return of which streams and tables one is made, by its statement and by queries that fill it; None if unknown."""
        if name not in self._made_of:
            self._made_of[name] = await self._asked_origins(name, topic)
        return self._made_of[name]

    async def _asked_origins(self, name: str, topic: str) -> frozenset[str] | None:
        try:
            [said] = await answers_of(sql_server_of(self.place), f"DESCRIBE {quoted(name)};")
        except (RestError, ValueError):
            return None
        told = said.get("sourceDescription") or {}
        writers = list(told.get("writeQueries") or ())
        writers += [
            each
            for each in self.queries.values()
            if name in (each.get("sinks") or ()) or topic in (each.get("sinkKafkaTopics") or ())
        ]
        texts = [str(each.get("queryString") or "") for each in writers]
        texts += [str(told["statement"])] if told.get("statement") else []
        found: set[str] = set()
        for text in texts:
            try:
                found.update(judged(text).needs.reads)
            except SqlError:
                return None
        return frozenset(found)

    async def may_read_all(self, names: Iterable[str]) -> bool:
        """Return whether one may read all of these, and nothing in them is hidden."""
        wanted = list(names)
        if not all(self.knows(each) and self.may(self.topics[each], "READ") for each in wanted):
            return False
        try:
            return await self.hidden_topic(wanted) is None
        except HttpError:
            return False

    async def may_know(self, text: str) -> bool:
        """Return whether a statement that somebody else has written may be shown: it may quote what it reads."""
        if self.sees_all:
            return True
        try:
            needs = judged(text).needs
        except SqlError:
            return False
        return await self.may_read_all((*needs.reads, *needs.shows, *needs.writes))

    async def told(self, answer: Any) -> Any:
        """Return an answer of the server's as one may see it: without rows and statements of what one may not know."""
        if self.sees_all:
            return _with_shown_settings(answer)
        if isinstance(answer, list):
            return [await self.told(each) for each in answer if await self._is_listed(each)]
        if not isinstance(answer, dict):
            return answer
        shown = {name: await self.told(each) for name, each in answer.items()}
        if isinstance(made := shown.get("sourceConstraints"), list):
            shown["sourceConstraints"] = [each for each in made if self.knows(str(each))]
        if isinstance(topics := shown.get("topics"), list):  # a connector's, by their names
            shown["topics"] = [each for each in topics if not isinstance(each, str) or self.may(each, "DESCRIBE")]
        for name in TEXTS:
            if isinstance(shown.get(name), str) and "@type" not in answer and not await self.may_know(answer[name]):
                shown[name] = HIDDEN if shown[name] else ""
        return _with_shown_settings(shown)

    async def _is_listed(self, row: Any) -> bool:
        """Return whether a row of a list may be seen: a stream, a table, a topic, or a query by what it reads and fills."""
        if not isinstance(row, dict):
            return True
        if isinstance(row.get("topic"), str) and "name" in row:
            return self.may(row["topic"], "DESCRIBE")
        if "replicaInfo" in row:
            return self.may(str(row.get("name")), "DESCRIBE")
        if "queryString" in row:
            return all(self.may(each, "DESCRIBE") for each in row.get("sinkKafkaTopics") or ()) and await self.may_know(
                str(row["queryString"])
            )
        if "statementText" in row and "@type" not in row:  # SHOW QUERIES EXTENDED, with its topology
            return all(map(self.knows, row.get("sinks") or ())) and await self.may_know(str(row["statementText"]))
        if isinstance(row.get("kafkaTopic"), str):
            return self.may(row["kafkaTopic"], "DESCRIBE")
        return True


async def sight_of(place: Place) -> Sight:
    """Return what somebody may see of a SQL server; raises RestError where it does not answer, OttlaError."""
    rights = None if place.login is None else await place.allowed()
    streams, tables, queries = await answers_of(sql_server_of(place), "SHOW STREAMS; SHOW TABLES; SHOW QUERIES;")
    topics = {str(each["name"]): str(each["topic"]) for each in (*streams["streams"], *tables["tables"])}
    return Sight(place, rights, topics, {str(each["id"]): each for each in queries["queries"]})


async def statement_for(place: Place, text: str, kind: str) -> Statement:
    """Return a statement that somebody may have carried out, as it is sent; raises HttpError for any other."""
    found = _statement(text, kind)
    needs = found.needs
    if place.login is not None:
        rights = await place.allowed()
        for operation in needs.cluster:
            need(place, rights, operation)
    if holds_secret(dict(needs.settings)):
        raise HttpError(
            400, "It holds a secret, which would be shown with it: make the connector on the page of Connect"
        )
    if needs.tells_all and place.is_masked:
        raise _masked("something", "what this tells")
    if place.login is None and not place.is_masked:
        return found
    try:
        await _check(await sight_of(place), needs)
    except RestError as error:
        raise HttpError(502, f"What this reads cannot be told: {error}") from None
    return found


def _statement(text: str, kind: str) -> Statement:
    try:
        found = judged(text)
    except SqlError as error:
        raise HttpError(400, f"{ONE[kind]} ({error})") from None
    if found.needs.kind == OTHER:
        raise HttpError(400, f"It is not run here: {found.needs.because}")
    if found.needs.kind != kind:
        raise HttpError(400, ONE[kind])
    return found


async def _check(sight: Sight, needs: Needs) -> None:
    """Raise HttpError unless somebody may do all that a statement does; rights are asked before masks."""
    if needs.query_id is not None:
        query = sight.queries.get(needs.query_id)
        if query is None or not await sight.may_know(str(query.get("queryString") or "")):
            raise HttpError(404, f"There is no query {needs.query_id}")
    for names, operation in (
        (needs.reads, "READ"),
        (needs.shows, "DESCRIBE"),
        (needs.writes, "WRITE"),
        (needs.deletes, "DELETE"),
    ):
        for name in names:
            if not sight.knows(name):
                raise HttpError(404, f"There is no stream or table {name}")
            _need(sight, sight.topics[name], operation)
    for topic, operation in ((needs.over, "READ"), (needs.fills, "WRITE")):
        if topic is not None:
            await _check_topic(sight, topic, operation)
    hidden = await sight.hidden_topic(needs.reads)
    if hidden is not None:
        raise _masked(hidden, "what this reads")


async def _check_topic(sight: Sight, topic: str, operation: str) -> None:
    """Raise HttpError unless a topic may be read or written, or made where it is not there: the brokers say that."""
    if sight.rights is None or (not sight.may(topic, "DESCRIBE") and "CREATE" in sight.rights.cluster):
        return
    if sight.may(topic, "DESCRIBE"):
        _need(sight, topic, operation)
    elif topic in await create_topics(sight.place.cluster.client, [NewTopic(topic, 1)], validate_only=True):
        raise HttpError(403, f"needs {operation}, or CREATE, on topic {topic}", error_code=FORBIDDEN)


def _need(sight: Sight, topic: str, operation: str) -> None:
    if not sight.may(topic, operation):
        raise HttpError(403, f"needs {operation} on topic {topic}", error_code=FORBIDDEN)


def _masked(topic: str, what: str) -> HttpError:
    words = f"{topic} is masked here" if topic != "something" else "Something is masked here"
    return HttpError(403, f"{words}, and the SQL server knows no masks: {what} would show it", error_code=MASKED)


def _untold(why: str) -> HttpError:
    return HttpError(403, f"Records are masked here, and what this reads cannot be told: {why}", error_code=MASKED)


def _with_shown_settings(answer: Any) -> Any:
    """Return an answer whose settings (SHOW PROPERTIES) are shown as settings are."""
    if isinstance(answer, dict) and isinstance(answer.get("properties"), list):
        rows = answer["properties"]
        shown = shown_settings({str(each.get("name")): each.get("value") for each in rows})
        return {**answer, "properties": [{**each, "value": shown[str(each.get("name"))]} for each in rows]}
    return answer
