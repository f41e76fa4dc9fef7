"""Lines become records as Kafka's LineMessageReader cuts them."""

from __future__ import annotations

import pytest

from ottla.base import KafkaError
from ottla.cli.records.line_reader import Line, LineReader, LineRules

BOTH = {"parse.key": "true", "parse.headers": "true"}


def cut(properties: dict[str, str], *lines: bytes) -> list[Line]:
    return list(LineReader(LineRules.of(properties)).read(lines))


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"a\tb\n", Line(None, b"a\tb", [])),
        ({}, b"\r\n", Line(None, b"", [])),
        ({}, b"\xff\xfe\n", Line(None, b"\xff\xfe", [])),
        ({"parse.key": "true"}, b"k\tv\tw\n", Line(b"k", b"v\tw", [])),
        ({"parse.key": "true", "key.separator": "::"}, b"k::v\n", Line(b"k", b"v", [])),
        (BOTH, b"h:1,g:2\tk\tv\n", Line(b"k", b"v", [("h", b"1"), ("g", b"2")])),
        (BOTH, b"h:\tk\tv\n", Line(b"k", b"v", [("h", b"")])),
        ({**BOTH, "null.marker": "~"}, b"~\t~\t~\n", Line(None, None, [])),
        ({**BOTH, "null.marker": "~"}, b"h:~\tk\tv\n", Line(b"k", b"v", [("h", None)])),
        ({"parse.key": "true", "ignore.error": "true"}, b"v\n", Line(None, b"v", [])),
        ({**BOTH, "ignore.error": "true"}, b"h\tk\tv\n", Line(b"k", b"v", [("h", None)])),
        ({"parse.headers": "true"}, b"h:1\tv\n", Line(None, b"v", [("h", b"1")])),
        # empty separators, as Kafka has them: they are there, before everything
        ({"parse.key": "true", "key.separator": ""}, b"a\tb\n", Line(b"", b"a\tb", [])),
        ({"parse.headers": "true", "headers.key.separator": ""}, b"a:1\tb\n", Line(None, b"b", [("", b"a:1")])),
        (
            {"parse.headers": "true", "headers.separator": "", "ignore.error": "true"},
            "ü:\tb\n".encode(),
            Line(None, b"b", [("ü", None), ("", b"")]),
        ),
    ],
)
def test_a_line_is_cut_by_its_rules(properties: dict[str, str], line: bytes, expected: Line) -> None:
    assert cut(properties, line) == [expected]


@pytest.mark.parametrize(
    ("properties", "lines", "said"),
    [
        ({"parse.key": "true"}, [b"k\tv\n", b"v\n"], "No key separator found on line number 2: 'v'"),
        (BOTH, [b"v\n"], "No headers delimiter found on line number 1: 'v'"),
        (BOTH, [b"h1\tk\tv\n"], "No header key separator found in pair 'h1' on line number 1"),
        (
            {**BOTH, "null.marker": "~"},
            [b"~:1\tk\tv\n"],
            "Header keys should not be equal to the null marker '~' as they can't be null",
        ),
        ({"headers.separator": ":"}, [b"x"], "headers.separator and headers.key.separator may not be equal"),
        ({"headers.delimiter": ","}, [b"x"], "headers.delimiter and headers.separator may not be equal"),
        ({"null.marker": "\t"}, [b"x"], "null.marker and key.separator may not be equal"),
    ],
)
def test_a_line_that_cannot_be_cut_is_refused_in_kafkas_words(
    properties: dict[str, str], lines: list[bytes], said: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        cut(properties, *lines)
    assert caught.value.message == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("headers.separator", "No header key separator found in pair 'a' on line number 1"),
        ("headers.delimiter", "No header key separator found in pair '' on line number 1"),
    ],
)
def test_an_empty_separator_of_headers_is_told_as_kafka_tells_it(name: str, said: str) -> None:
    with pytest.raises(KafkaError, match=said):
        cut({"parse.headers": "true", name: ""}, b"a:1\tb\n")
