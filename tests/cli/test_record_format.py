"""Formats: what a verb prints, that what was printed reads back, and what is refused."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base import KafkaError
from ottla.cli.records.formatters import json_formatter
from ottla.cli.records.json_lines import read_json_lines
from ottla.cli.records.line_reader import Line
from ottla.cli.records.record_format import FormatReader, compile_format, format_renderer
from ottla.cli.records.record_reader import ConsumedRecord

NO_NUMBERS = [
    "%v{big12}",
    "%t{big64}",
    "%v{unpack[z]}",
    "%v{unpack[]}",
    "%v{unpack[sq]}",
    "%o{unpack[q]}",
    "%v{unpack}",
]


def record(key: bytes | None = b"k", value: bytes | None = b"v", **other: object) -> ConsumedRecord:
    fields: dict[str, object] = {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "leader_epoch": 1,
        "timestamp": 1_700_000_000_000,
        "timestamp_type": "CreateTime",
        "headers": (("a", b"1"), ("b", None)),
    }
    return ConsumedRecord(key=key, value=value, **(fields | other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t %p %o %k %v %h %d\n", b"t 3 7 k v a=1,b= 1700000000000\n"),
        (r"%s|%S|%K|%T|%e|%i%%\t\\\x41", b"v|1|1|1|1|1%\t\\A"),
        ("%k{hex} %v{base64} %v{json}", b'6b dg== "v"'),
        ("%V{big32}%v%o{little16}", b"\0\0\0\1v\7\0"),
        ("%h{json}", b'[["a","1"],["b",null]]'),
        ("ünï", "ünï".encode()),
    ],
)
def test_verbs_print_their_fields(text: str, printed: bytes) -> None:
    assert format_renderer(text)(record()) == printed


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        ("%v{big64}", (-5).to_bytes(8, "big", signed=True), b"-5"),
        ("%v{little16}|%k{big8}", b"\x01\x02", b"513|107"),
        ("%v{unpack[>iI bB]}", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"-14294967295 -1255"),
        ("%v{unpack[<h>h$]}", b"\x01\x00\x00\x01", b"11"),
        ("%v{unpack[cs]}", b"abc", b"abc"),
        ("%v{unpack[q]}", b"\0" * 7 + b"\7rest", b"7"),
        ("[%v{big64}]", None, b"[]"),
    ],
)
def test_numbers_that_are_bytes_print_as_numbers(text: str, value: bytes | None, printed: bytes) -> None:
    assert format_renderer(text)(record(value=value)) == printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("%v{big64}", "t-3 at offset 7: %v{big64}: the value has 3 bytes, not 8"),
        ("%v{unpack[q]}", "t-3 at offset 7: %v{unpack[q]}: 3 bytes are too few for q"),
        ("%v{unpack[h$]}", "t-3 at offset 7: %v{unpack[h$]}: 1 of 3 bytes are left behind h$"),
    ],
)
def test_bytes_that_are_no_such_number_are_named_with_their_record(text: str, said: str) -> None:
    with pytest.raises(KafkaError) as error:
        format_renderer(text)(record(value=b"abc"))
    assert str(error.value) == said


def test_nothing_prints_as_nothing_and_json_null() -> None:
    assert format_renderer("[%k][%v{json}]")(record(key=None, value=None)) == b"[][null]"


@pytest.mark.parametrize("text", ["%z", "%v{rot13}", "%p{hex}", "%o{big12}", "%", "a\\", "\\q", "%h{hex}", *NO_NUMBERS])
def test_what_is_no_format_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(KafkaError):
        compile_format(text)


def lines(text: str, data: bytes) -> list[Line]:
    return list(FormatReader(text).read(io.BytesIO(data)))


def test_fields_end_at_the_text_that_follows() -> None:
    assert lines(r"%k:%v\n", b"a:1\nb:2:3\nc:") == [Line(b"a", b"1", []), Line(b"b", b"2:3", []), Line(b"c", b"", [])]
    (found,) = lines(r"%t/%p@%d %h %k=%v;;", b"topic/4@12 x=1,y=2 k=v;;")
    assert found == Line(b"k", b"v", [("x", b"1"), ("y", b"2")], "topic", 4, 12)


def test_numbers_become_the_bytes_that_they_are_printed_from() -> None:
    (found,) = lines(r"%k{little32}=%v{big64}\n", b"-2=300\n")
    assert (found.key, found.value) == (b"\xfe\xff\xff\xff", b"\0\0\0\0\0\0\1\x2c")


def test_a_format_without_an_end_takes_the_whole_input() -> None:
    assert lines("%v", b"one\ntwo\n") == [Line(None, b"one\ntwo\n", [])]


@pytest.mark.parametrize(
    ("text", "data", "said"),
    [
        (r"%k:%v\n", b"a:1\nnothing\n", "record 2: no ':' after %k"),
        ("%V{big32}%v", b"\0\0\0\5ab", "the input ends in the middle of %v"),
        (r"%p %v\n", b"x y\n", "%p is no number"),
        (r"%v{hex}\n", b"zz\n", "record 1: %v{hex}"),
        (r"%v{base64}\n", b"?\n", "record 1: %v{base64}"),
        (r"<%v>\n", b"(a)\n", "is expected at"),
        (r"%v{big16}\n", b"70000\n", "record 1: %v{big16}: 70000 does not fit into 2 bytes"),
        (r"%v{big16}\n", b"many\n", "record 1: %v{big16}"),
    ],
)
def test_input_that_does_not_fit_is_named(text: str, data: bytes, said: str) -> None:
    with pytest.raises(KafkaError) as error:
        lines(text, data)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["%t", "%k%v", "%p%v", "%v{unpack[q]}", "%k{big64}%v"])
def test_a_format_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(KafkaError):
        FormatReader(text)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.binary(), st.binary()), max_size=5))
def test_sizes_carry_any_bytes_round(pairs: list[tuple[bytes, bytes]]) -> None:
    text = r"%K{big32}%V{little64}%k%v"
    data = b"".join(format_renderer(text)(record(key, value)) for key, value in pairs)
    assert [(line.key, line.value) for line in lines(text, data)] == pairs


@settings(deadline=None, max_examples=40)
@given(
    st.one_of(st.none(), st.binary()),
    st.one_of(st.none(), st.binary(), st.text().map(str.encode)),
    st.lists(st.tuples(st.text(), st.one_of(st.none(), st.binary()))),
)
def test_json_lines_carry_any_record_round(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    written = json_formatter({})(record(key, value, headers=tuple(headers)))
    assert written.count(b"\n") == 1
    (line,) = read_json_lines([written], keep_partition=True)
    assert line == Line(key, value, headers, "t", 3, 1_700_000_000_000)


@pytest.mark.parametrize(
    "text", [b"{", b"1", b"{}", b'{"value":{"base64":"?"}}', b'{"value":"a","headers":[1]}', b"\xff"]
)
def test_a_line_that_is_no_record_is_named(text: bytes) -> None:
    with pytest.raises(KafkaError) as error:
        list(read_json_lines([b'{"value":"sound"}', text]))
    assert str(error.value).startswith("line 2 is no record")


def test_any_json_value_may_be_written() -> None:
    (line,) = read_json_lines([b'{"key":5,"value":{"a":[1,null]},"headers":{"h":"x"}}'])
    assert line == Line(b"5", b'{"a":[1,null]}', [("h", b"x")])
