"""Texts over which an expression tries for ever, where patterns of others are taken or texts are read by our own."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.config import BROKER_KEYS
from ottla.config.placeholders import is_placeholder, resolved
from ottla.config.providers import EnvironmentProvider
from ottla.config.types import parse_value
from ottla.connect.converters.json_text import parse_json
from ottla.connect.data.value_text import parse_decimal
from ottla.connect.errors import DataError
from ottla.connect.java_regex import compile_java
from ottla.connectors.cdc.mysql.unsent import writes_rows
from ottla.mirror.filters import DefaultTopicFilter
from ottla.security.principal_rules import KerberosRules, NoRuleError, SslRules
from ottla.sql import parse_expression
from ottla.sql.expressions import Scope, compile_condition
from ottla.sql.functions.java_regex import java_pattern, matches, replaced_all, split
from ottla.sql.lexer import tokens
from ottla.sql.types import STRING
from ottla.streams.plan.nodes import SourceNode
from tests.sql.evaluation import value_of

AS = "a" * 300
LONG = "a" * 3000 + "!"
EVIL = "(a+)+$"
MANY = 200_000


@pytest.mark.parametrize("pattern", ["%a%a%a%ab", "%a%a%a%a_b", "%" * 50 + "b"])
def test_like_over_a_long_text_has_its_answer_in_a_condition(pattern: str) -> None:
    errors: list[Exception] = []
    scope = Scope.of([(None, "S", STRING)])
    holds = compile_condition(parse_expression(f"S LIKE '{pattern}'"), scope, errors.append)
    assert not holds((AS,))
    assert not errors


def test_functions_of_sql_answer_over_a_long_text() -> None:
    assert java_pattern(EVIL).search(LONG) is None
    assert not matches(java_pattern(EVIL), LONG)
    assert replaced_all(EVIL, LONG, "x") == LONG
    assert split("(a+)+;", LONG) == [LONG]
    assert value_of(f"REGEXP_EXTRACT('{EVIL}', '{LONG}')") is None
    assert value_of(f"REGEXP_SPLIT_TO_ARRAY('{LONG}', '{EVIL}')") == [LONG]


def test_a_function_of_sql_says_what_took_too_long() -> None:
    errors: list[Exception] = []
    assert value_of(f"REGEXP_EXTRACT('(?!x)(a|aa)+;', '{'a' * 80}')", errors) is None
    assert "look-ahead is matched by trying" in str(errors[0])


def test_filters_of_topics_answer_over_a_long_name() -> None:
    chosen = DefaultTopicFilter()
    chosen.configure({"topics": "(a+)+", "topics.exclude": "(a|aa)+b"})
    assert not chosen.should_replicate_topic(LONG)
    assert SourceNode("source", pattern="(a+)+").topics_among([LONG, "aa"]) == ("aa",)
    assert compile_java("(a+)+").fullmatch(LONG) is None


def test_names_of_certificates_and_of_kerberos_are_mapped_or_refused() -> None:
    with pytest.raises(NoRuleError):
        SslRules("RULE:^CN=(a+)+$/$1/").user(f"CN={LONG}")
    assert KerberosRules(["RULE:[1:$1](a*a*a*a*a*b)s/x/y/", "DEFAULT"], realm="R").user(f"{LONG}@R") == LONG
    with pytest.raises(NoRuleError, match="look-ahead"):
        SslRules("RULE:(?!x)(a|aa)+;/$1/").user("a" * 80)


def test_names_of_variables_are_looked_at_in_linear_time() -> None:
    provider = EnvironmentProvider({"allowlist.pattern": "(A+)+"}, {"A" * 60 + "_": "secret", "AA": "open"})
    assert provider.get("", "A" * 60 + "_") is None
    assert provider.get("", "AA") == "open"
    with pytest.raises(ConfigError, match="Unclosed group"):
        EnvironmentProvider({"allowlist.pattern": "("}, {})


def test_a_placeholder_without_an_end_costs_no_more_than_its_length() -> None:
    hostile = "${" + ":" * MANY
    assert not is_placeholder(hostile)
    assert resolved({"key": hostile, "other": "${" * MANY + "}"}, lambda found: "x") == {
        "key": hostile,
        "other": "${" * MANY + "}",
    }


def test_numbers_of_many_digits_are_refused_at_once() -> None:
    hostile = "1" * MANY + "x"
    assert parse_decimal(hostile) is None
    assert value_of(f"CAST('{hostile}' AS DOUBLE)") is None
    with pytest.raises(ConfigError):
        parse_value(BROKER_KEYS["log.cleaner.min.cleanable.ratio"], hostile)


def test_blanks_of_a_list_are_passed_over_once() -> None:
    blanks = " " * MANY
    assert parse_value(BROKER_KEYS["log.cleanup.policy"], f"delete{blanks},{blanks}compact") == ("delete", "compact")


def test_a_time_of_many_letters_is_none() -> None:
    assert value_of(f"TS = '{'a' * MANY}'") in (None, False)
    assert value_of(f"TS = '2020-01-01T{'a/' * MANY}!'") in (None, False)


def test_comments_that_do_not_end_are_read_once() -> None:
    assert len(tokens("/*x" * 20_000)) == 60_001
    assert [each.text for each in tokens("1 /* a */ 2 /* b")] == ["1", "2", "/", "*", "b", "<EOF>"]


def test_comments_before_a_statement_of_a_binlog_are_passed_over_once() -> None:
    assert not writes_rows("/**/" * 60 + "ALTER TABLE t ADD a int")
    assert writes_rows(" /* a */ /* b */\ninsert INTO t VALUES (1)")


def test_a_json_text_that_does_not_end_is_read_once() -> None:
    with pytest.raises(DataError):
        parse_json(b'"\\' * MANY)
    assert parse_json(b'{"a": "\\"007", "b": 007}') == {"a": '"007', "b": 7}


def test_a_table_with_a_cyrillic_name_is_in_a_list_of_letters() -> None:
    assert compile_java(r"(?i)public\.\p{L}+").fullmatch("public.заказы")
    assert compile_java(r"public\.[\p{L}_]+").fullmatch("public.größe_größer")
