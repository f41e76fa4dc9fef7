"""FileStreamSource and FileStreamSink do what Apache Kafka Connect 4.3's did with the same files and topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import data
from tests.server import running_server
from tests.spark.file_cases import BROKER, FACTS, SOURCES, Ottla, Source, asked, sink_answers, source_answers, theirs

Answers = dict[tuple[str, str], Any]

BETTER: Answers = {
    ("source", "batches"): {
        "records": [[number, None, str(number + 1)] for number in range(5)],
        "offsets": [{"partition": {"filename": "FILE"}, "offset": {"position": 10}}],
        "trouble": "",
    },
    ("source", "resumed behind other letters"): {
        "records": [[0, None, "eins ä"], [1, None, "zwei €"], [2, None, "drei ö"]],
        "offsets": [{"partition": {"filename": "FILE"}, "offset": {"position": 25}}],
        "trouble": "",
    },
}
"""Kafka leaves lines behind a full batch until the file grows, and counts characters, of which it skips as many bytes."""


@cache
def facts() -> Answers:
    return {(kind, name): answer for kind, name, _, answer in json.loads(FACTS.read_text())}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ottla]:
    folder = tmp_path_factory.mktemp("files")
    with running_server(folder, overrides=BROKER) as server:
        worker = Ottla(server.bootstrap)
        with worker.stack:
            yield worker


def test_the_facts_are_of_the_questions_that_are_asked() -> None:
    assert [each[:3] for each in json.loads(FACTS.read_text())] == asked()


def test_a_files_lines_become_the_records_that_kafka_makes_of_them(ours: Ottla, tmp_path: Path) -> None:
    for name, answer in source_answers(ours, tmp_path).items():
        expected = facts()["source", name]
        if ("source", name) in BETTER:
            assert expected != BETTER["source", name], f"{name} is not better"
            expected = BETTER["source", name]
        assert answer == in_bytes(SOURCES[name], expected), name


def in_bytes(case: Source, answer: Any) -> Any:
    """Return an answer of Kafka's with its position in bytes, where it is the end of all that was written."""
    written = (case.before or b"") + b"".join(each for each in case.steps if isinstance(each, bytes))
    characters = len(written.decode("utf-8", data.AS_JAVA).encode("utf-16-le")) // 2
    for each in answer["offsets"]:
        if each["offset"]["position"] == characters:
            each["offset"] = {"position": len(written)}
    return answer


def test_a_topics_values_become_the_lines_that_kafka_makes_of_them(ours: Ottla, tmp_path: Path) -> None:
    for name, answer in sink_answers(ours, tmp_path).items():
        assert answer == facts()["sink", name], name


@pytest.mark.peer
@pytest.mark.slow
def test_kafka_answers_as_it_did(tmp_path: Path) -> None:
    with theirs(tmp_path) as worker:
        answers = source_answers(worker, tmp_path), sink_answers(worker, tmp_path)
    for kind, found in zip(("source", "sink"), answers, strict=True):
        for name, answer in found.items():
            assert answer == facts()[kind, name], name
