"""Patterns mean what they mean to Java, whichever engine runs them."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.java import PatternError, Replacement, Wildcards, compile_java
from tests.java.facts import FACTS


@pytest.mark.parametrize(("pattern", "text", "expected"), FACTS)
def test_patterns_answer_as_java_does(
    pattern: str, text: str, expected: tuple[bool, list[tuple[str | None, ...]]] | None
) -> None:
    if expected is None:
        with pytest.raises(PatternError):
            compile_java(pattern)
        return
    known = compile_java(pattern)
    found = [tuple(each[group] for group in range(known.groups + 1)) for each in known.finditer(text)]
    assert (known.fullmatch(text) is not None, found) == expected


CHARACTERS = st.sampled_from(["a", "b", "é", ".", "[ab]", "[^a]", r"\d", r"\w", r"\.", "1", "_"])
REPEATED = st.sampled_from(["", "*", "+", "?", "*?", "+?", "{2}", "{1,2}"])
ITEMS = st.tuples(CHARACTERS, REPEATED).map("".join)
PATTERNS = st.recursive(
    ITEMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("abé1_. ", max_size=12))
def test_what_python_writes_alike_is_found_alike(pattern: str, text: str) -> None:
    ours, theirs = compile_java(pattern), re.compile(pattern, re.ASCII)
    assert ours.not_linear is None
    whole = theirs.fullmatch(text)
    assert (ours.fullmatch(text) is not None) == (whole is not None)
    first, expected = ours.search(text), theirs.search(text)
    assert (first is None) == (expected is None)
    if first is not None and expected is not None:
        assert first.span() == expected.span()
        assert first.groups() == expected.groups()


@given(PATTERNS, st.text("abé1_. \n\r", max_size=12))
def test_both_engines_find_the_same(pattern: str, text: str) -> None:
    linear, tried = compile_java(f"{pattern}$"), compile_java(f"(?=){pattern}$")
    assert linear.not_linear is None and tried.not_linear == "look-ahead"
    one, other = linear.search(text), tried.search(text)
    assert (one and one.span()) == (other and other.span())
    assert (linear.fullmatch(text) is None) == (tried.fullmatch(text) is None)


def test_letters_are_all_of_unicode() -> None:
    assert compile_java(r"public\.\p{L}+").fullmatch("public.заказы")


def test_half_a_character_is_a_character() -> None:
    assert [each.span() for each in compile_java("[^a]").finditer("a\ud800é\udc00")] == [(1, 2), (2, 3), (3, 4)]


def test_a_pattern_travels_to_another_process() -> None:
    found = pickle.loads(pickle.dumps(compile_java("(?<n>a)"))).fullmatch("a")
    assert found is not None and found["n"] == "a"


def test_a_replacement_names_groups_by_numbers_and_names() -> None:
    pattern = compile_java(r"(?<day>\d+)\.(\d+)")
    assert pattern.sub(Replacement(r"$2-${day}\$", pattern), "on 24.12, 1.1") == "on 12-24$, 1-1$"
    for wrong in ("$3", "${no}", "$", "\\", "${day"):
        with pytest.raises(PatternError):
            Replacement(wrong, pattern)


@given(st.text("ab%_!.\n", max_size=8), st.text("ab.\n%", max_size=10), st.booleans())
def test_wildcards_mean_what_their_expression_means(pattern: str, text: str, in_line: bool) -> None:
    dot = r"[^\n\r\u0085\u2028\u2029]" if in_line else "."
    signs = {"%": f"{dot}*", "_": dot}
    expected = re.compile("".join(signs.get(each) or re.escape(each) for each in pattern), re.DOTALL)
    assert Wildcards(pattern, in_line=in_line).matches(text) == (expected.fullmatch(text) is not None)
