"""The order in which the schemas of a case get their ids, which statements may name.

ksqlDB's test runner has the topics of a case, those that it lists and those that CREATE declares with columns, in a HashMap;
it registers their schemas in that order before any statement runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from ottla.java import hash_ordered
from ottla.sql.catalogue import Catalogue
from ottla.sql.definitions import define
from ottla.sql.errors import SqlError
from ottla.sql.formats.registry import WITH_SCHEMAS, subject_of
from ottla.sql.parser.texts import split_statements
from ottla.sql.tree import statements as s

Topic = Mapping[str, object]


def with_declared(text: str, listed: Sequence[Topic]) -> list[Topic]:
    """The topics that a case lists and those that its statements declare, as their schemas are to be registered."""
    topics = {str(each.get("name", "")): each for each in listed}
    for name, topic in _declared(text):
        topics.setdefault(name, topic)
    return [topics[name] for name in hash_ordered(topics)]


def _declared(text: str) -> Iterator[tuple[str, Topic]]:
    """The topics of CREATE STREAM and TABLE with columns; what cannot be read is refused later, in its turn."""
    try:
        found = split_statements(text)
    except SqlError:
        return
    for each in found:
        try:
            statement = each.parse({}, {})
            if isinstance(statement, s.CreateSource) and statement.columns:
                yield from _topic(statement)
        except SqlError:
            continue


def _topic(statement: s.CreateSource) -> Iterator[tuple[str, Topic]]:
    """A statement's topic with the schemas of its columns, where its formats have some."""
    from ottla.serdes import SerdeError
    from ottla.sql.testing.registry import CaseRegistry

    registry = CaseRegistry()
    source = define(statement, Catalogue(registry=registry), {}).source(statement.name)
    topic: dict[str, object] = {"name": source.topic}
    for side, format_ in (("key", source.layout.key_format), ("value", source.layout.value_format)):
        if format_ not in WITH_SCHEMAS:
            continue
        try:
            schema = registry.latest(subject_of(source.topic, is_key=side == "key")).schema.text
        except SerdeError:
            continue
        topic[f"{side}Format"] = format_
        topic[f"{side}Schema"] = schema if format_ == "PROTOBUF" else json.loads(schema)
    yield source.topic, topic
