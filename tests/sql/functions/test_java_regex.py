"""Patterns of java.util.regex answer as Java's do: what is expected here is what Java 17 answered."""

from __future__ import annotations

import pytest

from ottla.sql.errors import EvaluationError
from ottla.sql.functions.java_regex import java_pattern, matches, replaced_all, split


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"[a-z&&[^b]]+", "abcB", ["a", "c"]),
        (r"[a[0-9]]+", "xa1b", ["a1"]),
        (r"[\w&&[^\d]]+", "a1b2", ["a", "b"]),
        (r"[]a]+", "x]a", ["]a"]),
        (r"\Qa.b\E+", "a.bbaxb", ["a.bb"]),
        (r"a(?i)b", "aB ab AB", ["aB", "ab"]),
        (r"(?<n>a)\k<n>", "aab", ["aa"]),
        (r"\p{L}+", "é1b", ["é", "b"]),
        (r"\p{Alpha}+", "éa1b", ["a", "b"]),
        (r"\x41\u00e9", "Aé", ["Aé"]),
        (r"x??", "x1", ["", "", ""]),
        (r"\B", "", [""]),
        (r"a\z", "a\n", []),
        (r"a\Z", "a\n", ["a"]),
        (r"\h+", "a\t b", ["\t "]),
        (r"\1(a)", "aa", []),
        (r"a++a", "aaa", []),
        (r"\b?x", "x", ["x"]),
    ],
)
def test_matches_are_javas(pattern: str, text: str, found: list[str]) -> None:
    assert [each[0] for each in matches(java_pattern(pattern), text)] == found


@pytest.mark.parametrize("pattern", ["(", "a{", "[a", "*a", r"\y", r"\p{Foo}", "a)", "[b-a]", "(?z)a", "\\"])
def test_what_java_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(EvaluationError):
        java_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "pattern", "new", "answer"),
    [
        ("abc", "(b)", "[$1]", "a[b]c"),
        ("abc", "(?<x>b)", "${x}${x}", "abbc"),
        ("abc", "(b)", "$12", "ab2c"),
        ("abc", "b", r"\$", "a$c"),
        ("abc", "x*", "-", "-a-b-c-"),
        ("abc", "(x)|b", "<$1>", "a<>c"),
    ],
)
def test_replacements_are_javas(text: str, pattern: str, new: str, answer: str) -> None:
    assert replaced_all(pattern, text, new) == answer


@pytest.mark.parametrize("new", ["$1", "${n}", "$", "\\"])
def test_a_replacement_that_names_no_group_is_refused_where_something_matches(new: str) -> None:
    assert replaced_all("x", "abc", new) == "abc"
    with pytest.raises(EvaluationError):
        replaced_all("b", "abc", new)


@pytest.mark.parametrize(
    ("pattern", "text", "parts"),
    [
        ("", "abc", ["a", "b", "c"]),
        (",", "a,b,", ["a", "b", ""]),
        ("x*", "axxb", ["a", "", "b"]),
        ("(b)", "abc", ["a", "c"]),
        ("z", "", [""]),
    ],
)
def test_parts_are_those_of_ksqldb(pattern: str, text: str, parts: list[str]) -> None:
    assert split(pattern, text) == parts
