"""No pattern of a user's, and no text, keeps a process for long."""

from __future__ import annotations

import random
import sys

import pytest

from ottla.java import PatternCostError, PatternError, Wildcards, compile_java, compile_re2

LONG = "a" * 3000 + "!"


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(?:a?){50}a{50}b", ".*.*.*.*.*.*=", r"(\w+\s?)+$"]
)
def test_what_backtracks_elsewhere_runs_in_linear_time(pattern: str) -> None:
    known = compile_java(pattern)
    assert known.not_linear is None
    assert known.fullmatch(LONG) is None
    assert known.search(LONG) is None


@pytest.mark.parametrize("in_line", [True, False])
def test_like_with_many_wildcards_over_a_long_text_has_its_answer(in_line: bool) -> None:
    for pattern in ("%a%a%a%ab", "%a%a_%a%a_b", "%" * 500 + "b", "_%" * 200 + "b"):
        known = Wildcards(pattern, in_line=in_line)
        assert not known.matches("a" * 100_000)
        assert not known.matches("a" * 3000 + "\n")


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"(?=x|)(a|aa)+\Z", "look-ahead"),
        (r"(?<!b)(?:a|aa)+\Z", "look-behind"),
        (r"(x?)(a|aa)+\1\Z", "a reference back"),
        (r"(?>x?)(a|aa)+\Z", "an atomic group"),
        (r"x?+(a|aa)+\Z", "a possessive repetition"),
    ],
)
def test_what_only_trying_matches_is_stopped_and_given_up(pattern: str, construct: str) -> None:
    known = compile_java(pattern)
    for _ in range(3):
        with pytest.raises(PatternCostError, match=construct):
            known.search("a" * 80 + "!")
    with pytest.raises(PatternCostError, match="is given up"):
        known.search("")


def test_a_large_pattern_over_a_large_text_is_refused_before_it_runs() -> None:
    known = compile_java("(?:a{0,1000})*b")
    assert known.fullmatch("aab")
    with pytest.raises(PatternCostError, match="too many for a text"):
        known.search("a" * 1_000_000)


def test_a_few_matches_that_take_long_each_have_one_limit_together() -> None:
    known = compile_java("c[abc]*a[ab]{900}x|c")
    letters = "".join(random.Random(1).choices("ab", k=100_000))
    with pytest.raises(PatternCostError, match="to find all its matches"):
        list(known.finditer("c" * 14 + letters))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a" * 32_769, "at most 32768 characters"),
        ("(" * 5000, "stand in each other"),
        ("[" * 5000, "stand in each other"),
        ("(?:a{1000}){1000}", "repeats too much"),
        ("(?:(?:a{0,1000}){0,10}){0,9}", "too large"),
        (r"\p{L}" * 6000, "too large"),
        (r"[\p{L}\d]" * 3600, "too many characters"),
        ("".join(rf"\p{{Is{name}}}" for name in map(str, range(40))), "property name"),
        ("(?=a)" + r"\p{L}" * 6000, "too large"),
    ],
)
def test_what_is_too_large_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(PatternError, match=why):
        compile_java(pattern)


def test_a_pattern_that_the_rest_of_the_stack_does_not_hold_is_refused() -> None:
    def deeper(times: int) -> None:
        if times:
            deeper(times - 1)
        else:
            compile_java("(" * 99 + "deep" + ")" * 99)

    with pytest.raises(PatternError, match="stack is too small"):
        deeper(sys.getrecursionlimit() * 7 // 10)


def test_a_pattern_of_the_protocol_is_bounded_too() -> None:
    with pytest.raises(PatternError, match="at most"):
        compile_re2("a" * 100_000)
    with pytest.raises(PatternError):
        compile_re2("(?:(?:a{0,100}){0,10}){0,100}" * 100)
    assert compile_re2("(a+)+").matches("a" * 1000)
    assert not compile_re2("(a+)+").matches(LONG)
