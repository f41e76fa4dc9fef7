"""Functions answer as ksqlDB documents them, nulls and refusals included."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.sql import SqlError, functions
from tests.sql.evaluation import type_text, value_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ABS(-3)", 3),
        ("CEIL(1.2E0)", 2.0),
        ("FLOOR(-1.2)", Decimal("-2.0")),
        ("ROUND(-2.5E0)", -2),
        ("ROUND(2.5)", Decimal(3)),
        ("ROUND(-1.25, 1)", Decimal("-1.20")),
        ("TRUNC(1.28, 1)", Decimal("1.20")),
        ("SIGN(-4)", -1),
        ("LOG(2E0, 8E0)", 3.0),
        ("GENERATE_SERIES(3, 1)", [3, 2, 1]),
        ("GENERATE_SERIES(1, 9, -1)", None),
        ("GREATEST(1, NULL, 3)", 3),
        ("GREATEST(I, F)", 7.0),
        ("LEAST('b', 'a')", "a"),
        ("COALESCE(NULL, N, I)", 7),
        ("IFNULL(NS, 'x')", "x"),
        ("NULLIF(I, 7)", None),
        ("UCASE(S)", "HELLO"),
        ("UCASE(NS)", None),
        ("INITCAP('the wORLD')", "The World"),
        ("LEN(X)", 2),
        ("CONCAT('a', NULL, 'b')", "ab"),
        ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
        ("SUBSTRING(S, 2)", "ello"),
        ("SUBSTRING(S, -3, 2)", "ll"),
        ("SUBSTRING(S, 9)", ""),
        ("INSTR('corporate floor', 'or')", 2),
        ("INSTR('corporate floor', 'or', 3)", 5),
        ("INSTR('corporate floor', 'or', 3, 2)", 14),
        ("INSTR('corporate floor', 'or', -3)", 5),
        ("INSTR('corporate floor', 'or', -3, 2)", 2),
        ("INSTR('aaa', 'aa', 1, 2)", 2),
        ("INSTR('abc', 'z', 2)", 0),
        ("INSTR(NS, 'a')", 0),
        ("INSTR('abc', 'c', 0)", 0),
        ("LEN(SUBSTRING('a𐐨b', 2, 2))", 2),
        ("SUBSTRING('a𐐨b', 4)", "b"),
        ("INSTR('a𐐨b', 'b')", 4),
        ("LPAD('𐐨', 3, 'x')", "x𐐨"),
        ("SPLIT('', '')", [""]),
        ("SPLIT_TO_MAP('a=1', '=', '=')", None),
        ("CHR('\\u004bx\\n')", "Kx\n"),
        ("CHR('u004b')", None),
        ("INITCAP('  a b\tc')", "A B\tC"),
        ("MASK('aB1', 'XX', 'y', 'z', 'w')", None),
        ("MASK('aB1 ', CAST(NULL AS STRING), 'y', 'z', 'w')", "yBzw"),
        ("ENCODE('0xab', 'hex', 'base64')", "qw=="),
        ("ENCODE('a', 'utf8', 'utf8')", None),
        ("FROM_BYTES(TO_BYTES('6a6B', 'HEX'), 'hex')", "6A6B"),
        ("TO_BYTES('0xab', 'hex')", None),
        ("CAST('YQ' AS BYTES)", b"a"),
        ("SLICE(ARRAY[1, 2, 3], 2, 3)", [2, 3]),
        ("SLICE(ARRAY[1, 2, 3], 2, 4)", None),
        ("SLICE(ARRAY[1, 2, 3], 0, 2)", None),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1])", {"a": 1, "b": None}),
        ("MAP_KEYS(MAP('foo' := 1, 'bar' := 2, 'baz' := 3))", ["bar", "foo", "baz"]),
        ("EXTRACTJSONFIELD('{\"a\": null}', '$.a')", "null"),
        ("EXTRACTJSONFIELD('{\"a\": 1} and more', '$.a')", "1"),
        ("EXTRACTJSONFIELD('[[1]]', '$[0][0]')", "1"),
        ("IS_JSON_STRING('1x')", False),
        ("IS_JSON_STRING('')", False),
        ("JSON_ITEMS('{}')", None),
        ("JSON_KEYS('nonsense') IS NULL", None),
        ("DATEADD(HOURS, -25, CAST('1970-01-01' AS DATE))", -1),
        ("DATEADD(DAYS, 2147483647, CAST('1970-01-02' AS DATE))", -2147483648),
        ("TIMESTAMPADD(DAYS, 2147483647, FROM_UNIXTIME(0))", 185542587100800000),
        ("PARSE_DATE('2021-5', 'yyyy-MM')", 18_748),
        ("PARSE_DATE('2021-05-06 and more', 'yyyy-MM-dd')", 18_753),
        ("PARSE_DATE('2021-05-06 10', 'yyyy-MM-dd HH')", None),
        ("PARSE_DATE('6 MAY 99', 'd MMMM yy')", 10_717),
        ("PARSE_TIME('2021 10', 'yyyy HH')", None),
        ("LPAD('Foo', 7, 'Bar')", "BarBFoo"),
        ("RPAD('Foo', 2, 'Bar')", "Fo"),
        ("LPAD('Foo', 7, '')", None),
        ("SPLIT('a,,b', ',')", ["a", "", "b"]),
        ("SPLIT('abc', '')", ["a", "b", "c"]),
        ("SPLIT_TO_MAP('a=1;b=2;c', ';', '=')", {"a": "1", "b": "2"}),
        ("MASK('My Test $123')", "Xx-Xxxx--nnn"),
        ("MASK_LEFT('My Test $123', 4)", "Xx-Xest $123"),
        ("MASK_KEEP_RIGHT('My Test $123', 4)", "Xx-Xxxx-$123"),
        ("REGEXP_EXTRACT('(.*) (.*)', 'hello there', 2)", "there"),
        ("REGEXP_EXTRACT('x', 'hello')", None),
        ("REGEXP_EXTRACT_ALL('[a-z]+', 'ab 1 cd')", ["ab", "cd"]),
        ("REGEXP_REPLACE('a1b22', '([0-9]+)', '<$1>')", "a<1>b<22>"),
        ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+')", ["a", "b", "c"]),
        ("CHR(75)", "K"),
        ("MD5('x')", "9dd4e461268c8034f5c8564e155c67a6"),
        ("ARRAY_LENGTH(A)", 3),
        ("ARRAY_CONTAINS(NA, 1)", False),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], 'DESC')", [3, 1, None]),
        ("ARRAY_JOIN(ARRAY['a', NULL], '-')", "a-null"),
        ("ARRAY_EXCEPT(A, ARRAY[1])", [3, 2]),
        ("ARRAY_MAX(ARRAY[1, NULL, 4])", 4),
        ("CAST(GREATEST(F, F / 0 - F / 0) AS STRING)", "NaN"),
        ("CAST(GREATEST(F / 0 - F / 0, F) AS STRING)", "NaN"),
        ("LEAST(F, F / 0 - F / 0)", 2.5),
        ("LEAST(F / 0 - F / 0, F)", 2.5),
        ("LEAST(X, TO_BYTES('ff', 'hex'))", b"\xff"),
        ("ARRAY_MIN(ARRAY[F / 0 - F / 0, F])", 2.5),
        ("SLICE(ARRAY_SORT(ARRAY[3e0, F / 0 - F / 0, 1e0]), 1, 2)", [1.0, 3.0]),
        ("GREATEST('\U0001f600', '\ufb01')", "\ufb01"),
        ("ARRAY_SORT(ARRAY['\U0001f600', '\ufb01', 'a'])", ["a", "\U0001f600", "\ufb01"]),
        ("SLICE(A, 2, 3)", [1, 2]),
        ("ELT(2, 'a', 'b')", "b"),
        ("FIELD('b', 'a', 'b')", 2),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])", {"a": 1, "b": 2}),
        ("ENTRIES(M, TRUE)", [{"K": "a", "V": 1}, {"K": "b", "V": 2}]),
        ("TRANSFORM(M, (k, v) => UCASE(k), (k, v) => v + 1)", {"B": 3, "A": 2}),
        ("REDUCE(NA, 5, (s, x) => s + x)", 5),
        ("GEO_DISTANCE(37.4133, -122.1162, 37.4133, -122.1162)", 0.0),
        ('EXTRACTJSONFIELD(\'{"a": {"b": [1, {"c": 1.50}]}}\', \'$.a.b[1].c\')', "1.50"),
        ('EXTRACTJSONFIELD(\'{"a": {"b": "x"}}\', \'$.a\')', '{"b":"x"}'),
        ("EXTRACTJSONFIELD('{', '$.a')", None),
        ("IS_JSON_STRING('[1]')", True),
        ("IS_JSON_STRING(NS)", False),
        ("JSON_ARRAY_LENGTH('[1, 2]')", 2),
        ("JSON_ARRAY_CONTAINS('[1, \"2\", 3.5]', '2')", True),
        ("JSON_ARRAY_CONTAINS('[1, \"2\"]', 2)", False),
        ('JSON_KEYS(\'{"a": 1, "b": 2}\')', ["a", "b"]),
        ('JSON_RECORDS(\'{"a": [1], "b": "x", "c": null}\')', {"a": "[1]", "b": "x", "c": "null"}),
        ("JSON_RECORDS('[1]')", None),
        ("GEO_DISTANCE(37.4439, -122.1664, 51.5257, -0.1122, ' Kilometres ')", 8634.664562077089),
        ("GEO_DISTANCE(37.4439, -122.1664, 51.5257, -0.1122, 'mile')", 5365.662690513765),
        ("GEO_DISTANCE(1.1, 2.2, 3.3, 4.4, NS)", 345.81926718250634),
        ("GEO_DISTANCE(NULL, 2.2, 3.3, 4.4, 'KM')", None),
        ("JSON_ITEMS('[{\"a\": 1}, 2]')", ['{"a":1}', "2"]),
        ("JSON_CONCAT('{\"a\": 1}', '{\"b\": 2}')", '{"a":1,"b":2}'),
        ("JSON_CONCAT('[1]', '2')", "[1,2]"),
        ("URL_EXTRACT_HOST('http://me@test.com:80/a?x=1')", "test.com"),
        ("URL_EXTRACT_PORT('http://test.com:80/a')", 80),
        ("URL_EXTRACT_PATH('http://test.com/a/b?x=1')", "/a/b"),
        ("URL_EXTRACT_PARAMETER('http://test.com?a=b%20c', 'a')", "b c"),
        ("URL_EXTRACT_PROTOCOL('http://test.com')", "http"),
        ("URL_EXTRACT_FRAGMENT('http://test.com#f')", "f"),
        ("URL_ENCODE_PARAM('a b&c')", "a+b%26c"),
        ("URL_DECODE_PARAM('a+b%26c')", "a b&c"),
        ("TO_BYTES('0102', 'hex')", b"\1\2"),
        ("FROM_BYTES(X, 'base64')", "AQI="),
        ("ENCODE('hi', 'utf8', 'hex')", "6869"),
        ("INT_FROM_BYTES(TO_BYTES('00000102', 'hex'))", 258),
        ("INT_FROM_BYTES(TO_BYTES('02010000', 'hex'), 'LITTLE_ENDIAN')", 258),
        ("INT_FROM_BYTES(X)", None),
        ("PARSE_DATE('05 Jan 2021', 'dd MMM yyyy')", 18_632),
        ("PARSE_TIME('3:05 PM', 'h:mm a')", 54_300_000),
        ("PARSE_TIMESTAMP('20210105030506', 'yyyyMMddHHmmss', 'Europe/Berlin')", 1_609_812_306_000),
        ("STRINGTOTIMESTAMP('2021-01-05T03:05:06+0100', 'yyyy-MM-dd''T''HH:mm:ssX')", 1_609_812_306_000),
        ("PARSE_DATE('2021-02-30', 'yyyy-MM-dd')", 18_688),
        ("FORMAT_DATE(DT, 'yyyy/MM/dd')", "2020/01/01"),
        ("FORMAT_TIME(TM, 'HH:mm:ss')", "10:10:10"),
        ("DATEADD(DAYS, 2, DT)", 18_264),
        ("DATESUB(HOURS, 1, DT)", 18_261),
        ("TIMEADD(HOURS, 20, TM)", 22_210_000),
        ("TIMESTAMPSUB(HOURS, 1, TS)", 1_577_833_200_123),
        ("CONVERT_TZ(TS, 'UTC', 'America/Los_Angeles')", 1_577_808_000_123),
        ("UNIX_DATE(DT)", 18_262),
        ("ROUND(1E300, 5)", 1e300),
        ("GREATEST(DT, '2020-01-03')", 18_264),
        ("GREATEST('2020-01-03', DT, NULL)", 18_264),
        ("LEAST(DT, '2020-01-03')", 18_262),
        ("LEAST(NULL, TM, '10:00')", 36_000_000),
        ("GREATEST(TS, '2020-01-02T00:00:00')", 1_577_923_200_000),
        ("LEAST(TS, 'no time')", 1_577_836_800_123),
        ("GREATEST(X, 'Aw==')", b"\3"),
        ("LEAST(NULL, NS, 'b', 'a')", "a"),
        ("DATEADD(DAYS, 2, '2020-01-01')", 18_264),
        ("FORMAT_TIMESTAMP('2021-01-05T03:05:06', 'HH:mm')", "03:05"),
        ("UNIX_DATE('1970-01-03')", 2),
    ],
)
def test_a_function_answers(text: str, value: object) -> None:
    found = value_of(text)
    assert str(found) == str(value) if isinstance(value, Decimal) else found == value


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2021-01-05 03:05:06.123"),
        ("yy/M/d h:m a", "21/1/5 3:5 AM"),
        ("EEE, d MMM yyyy", "Tue, 5 Jan 2021"),
        ("EEEE MMMM dd", "Tuesday January 05"),
        ("yyyy-MM-dd''T''HH:mm:ssX", "2021-01-05T03:05:06+01"),
        ("yyyyMMddHHmmssSSS", "20210105030506123"),
        ("HH:mm:ssXXX", "03:05:06+01:00"),
        ("Z", "+0100"),
        ("D kk KK", "5 03 03"),
        ("yyyy[-MM][-dd]", "2021-01-05"),
        ("VV", "Europe/Berlin"),
    ],
)
def test_a_moment_is_written_as_java_time_writes_it(pattern: str, shown: str) -> None:
    """The answers are OpenJDK 17's DateTimeFormatter's, in English."""
    text = f"FORMAT_TIMESTAMP(FROM_UNIXTIME(CAST(1609812306123 AS BIGINT)), '{pattern}', 'Europe/Berlin')"
    assert value_of(text) == shown


@pytest.mark.parametrize("pattern", ["yyyy-j", "]", "[" * 17 + "y" + "]" * 17, "y" * 600])
def test_a_pattern_that_is_not_known_costs_the_value_alone(pattern: str) -> None:
    errors: list[Exception] = []
    assert value_of(f"PARSE_TIMESTAMP('2021', '{pattern}')", errors) is None and errors


@pytest.mark.parametrize(
    "text",
    [
        "LPAD(S, 2000000000, 'x')",
        "GENERATE_SERIES(1, 2000000000)",
        "REGEXP_REPLACE(S, 'h', '$9')",
    ],
)
def test_what_would_be_endless_or_broken_costs_the_value_alone(text: str) -> None:
    errors: list[Exception] = []
    assert value_of(text, errors) is None and errors


def test_the_nearest_overload_is_taken() -> None:
    assert type_text("ROUND(F)") == "BIGINT"
    assert type_text("ABS(B)") == "BIGINT"
    assert type_text("SQRT(I)") == "DOUBLE"
    assert type_text("ABS(D)") == "DECIMAL(4, 2)"
    assert type_text("ROUND(D)") == "DECIMAL(2, 0)"


def test_every_function_says_what_it_does_and_what_it_takes() -> None:
    for function in functions.catalogue():
        assert function.description and function.overloads, function.name


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("TO_JSON_STRING(STRUCT(B:=1, A:=ARRAY['x', null]))", '{"A":["x",null],"B":1}'),
        ("TO_JSON_STRING(MAP('k':=1.50))", '{"k":1.50}'),
        ("TO_JSON_STRING(PARSE_DATE('2020-01-02', 'yyyy-MM-dd'))", '"2020-01-02"'),
        ("TO_JSON_STRING(TO_BYTES('a', 'utf8'))", '"YQ=="'),
        ("TO_JSON_STRING(null)", "null"),
        ("JSON_ARRAY_CONTAINS('[null]', null)", True),
    ],
)
def test_values_as_json(text: str, answer: object) -> None:
    assert value_of(text) == answer


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ABS(null)", "Function 'Abs' cannot be resolved due to ambiguous method parameters (null)."),
        ("ROUND(1, 2)", "Function 'Round' cannot be resolved due to ambiguous method parameters (INTEGER, INTEGER)."),
        ("GREATEST()", "Function 'greatest' does not accept parameters ()."),
        (
            "LEN(1)",
            "Function 'len' does not accept parameters (INTEGER).\nValid alternatives are:\nLEN(BYTES)\nLEN(VARCHAR)",
        ),
    ],
)
def test_which_function_is_meant_has_to_be_plain(text: str, said: str) -> None:
    with pytest.raises(SqlError) as refused:
        value_of(text)
    assert said in str(refused.value)
