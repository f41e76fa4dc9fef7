"""Operators: arithmetic, comparisons and logic, with Spark's types in ANSI mode."""

from __future__ import annotations

from collections.abc import Callable

from ottla.streams.expressions.bound import Bound, as_text, cast, common, lazy, strict
from ottla.streams.expressions.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    VOID,
    Kind,
    Refused,
    decimal,
)

__all__ = ["OPERATORS", "equal", "texts_in_a_row"]

Binder = Callable[[list[Bound]], Bound]
REALS = (FLOAT, DOUBLE)
ORDERED = (*INTEGERS, STRING, BINARY, TIMESTAMP, BOOLEAN)
"""Types whose values Python orders as Spark does."""


def _arithmetic(sign: str) -> Binder:
    def bind(arguments: list[Bound]) -> Bound:
        one, other = _two(sign, arguments)
        kinds = {one.kind, other.kind}
        if sign == "div":
            return _div(one, other)
        if any(each.name == "decimal" for each in kinds) and not kinds & set(REALS):
            return _decimals(sign, one, other)
        kind = common([one.kind, other.kind])
        if kind not in (*INTEGERS, *REALS):
            raise Refused(f"{one.kind} {sign} {other.kind} is not known here")
        if sign == "/":
            return _quotient(one, other)
        one, other = cast(one, kind), cast(other, kind)
        if kind in INTEGERS:
            if sign == "%":
                return strict(kind, "r.remainder({1}, {0})", other, one)
            return strict(kind, f"{_bound(kind)}({{0}} {sign} {{1}})", one, other, arrow=_checked(sign))
        if sign == "%":
            return strict(kind, "r.real_remainder({1}, {0})", other, one)
        if kind == FLOAT:
            return strict(kind, f"r.single({{0}} {sign} {{1}})", one, other)
        return strict(kind, f"({{0}} {sign} {{1}})", one, other, arrow=_checked(sign))

    return bind


def _checked(sign: str) -> str:
    return {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}[sign]


def _bound(kind: Kind) -> str:
    return f"r.{kind.name}" if kind.name != "int" else "r.int_"


def _two(sign: str, arguments: list[Bound]) -> tuple[Bound, Bound]:
    one, other = arguments
    for each in (one, other):
        if each.kind == VOID:
            raise Refused(f"null beside {sign} is not known here: say which type by cast")
    return one, other


def _div(one: Bound, other: Bound) -> Bound:
    if one.kind not in INTEGERS or other.kind not in INTEGERS:
        raise Refused(f"{one.kind} div {other.kind} is not known here")
    return strict(BIGINT, "r.quotient({1}, {0})", other, one)


def _quotient(one: Bound, other: Bound) -> Bound:
    """Spark looks at a divisor first: where it is null, nobody asks for the dividend."""
    return strict(DOUBLE, "r.divided({1}, {0})", cast(other, DOUBLE), cast(one, DOUBLE))


def _decimals(sign: str, one: Bound, other: Bound) -> Bound:
    """Decimals among themselves and with whole numbers, with Spark's precision of the result."""
    left, right = _decimal_of(one), _decimal_of(other)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    scale = max(left.scale, right.scale)
    if sign in "+-":
        call, found = "sum" if sign == "+" else "difference", (whole + scale + 1, scale)
    elif sign == "*":
        call, found = "product", (left.precision + right.precision + 1, left.scale + right.scale)
    elif sign == "/":
        scale = max(6, left.scale + right.precision + 1)
        call, found = "quotient", (left.precision - left.scale + right.scale + scale, scale)
    else:
        raise Refused(f"{one.kind} {sign} {other.kind} is not known here")
    kind = _adjusted(*found)
    template = f"r.scaled(r.decimal_{call}({{0}}, {{1}}), {kind.precision}, {kind.scale})"
    if sign == "/":
        template = template.replace("{0}, {1}", "{1}, {0}")
        return strict(kind, template, cast(other, right), cast(one, left))
    return strict(kind, template, cast(one, left), cast(other, right))


def _decimal_of(of: Bound) -> Kind:
    """Return the decimal type that an operand takes; a literal's is as narrow as its digits."""
    if of.kind.name == "decimal":
        return of.kind
    if of.is_literal and of.value is not None:
        return decimal(len(str(abs(of.value))), 0)
    return decimal({"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}[of.kind.name], 0)


def _adjusted(precision: int, scale: int) -> Kind:
    """Return a decimal of at most 38 digits; whole digits are kept at the cost of the scale, down to six."""
    if precision <= 38:
        return decimal(precision, scale)
    return decimal(38, max(38 - (precision - scale), min(scale, 6)))


# -- comparisons


def _compared(sign: str) -> Binder:
    def bind(arguments: list[Bound]) -> Bound:
        one, other, kind = _alike(sign, *arguments)
        arrow = {"=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}.get(sign, "")
        return strict(BOOLEAN, _comparison(sign, kind), one, other, arrow=arrow if kind not in REALS else "")

    return bind


def _comparison(sign: str, kind: Kind) -> str:
    if kind in REALS:
        return {
            "=": "r.same({0}, {1})",
            "!=": "(not r.same({0}, {1}))",
            "<": "r.below({0}, {1})",
            ">": "r.below({1}, {0})",
            "<=": "(not r.below({1}, {0}))",
            ">=": "(not r.below({0}, {1}))",
        }[sign]
    return f"({{0}} {'==' if sign == '=' else sign} {{1}})"


def _alike(sign: str, one: Bound, other: Bound) -> tuple[Bound, Bound, Kind]:
    kind = common([one.kind, other.kind])
    if kind not in (*ORDERED, *REALS, VOID) and kind.name != "decimal":
        raise Refused(f"{one.kind} {sign} {other.kind} is not known here")
    if kind == BOOLEAN and sign not in ("=", "!=", "<=>"):
        raise Refused(f"{one.kind} {sign} {other.kind} is not known here")
    if kind.name == "decimal":
        return one, other, kind  # Python compares decimals and whole numbers by what they are
    return cast(one, kind), cast(other, kind), kind


def equal(one: Bound, other: Bound) -> Bound:
    """Return `one = other`."""
    return _compared("=")([one, other])


def _null_safe(arguments: list[Bound]) -> Bound:
    one, other, kind = _alike("<=>", *arguments)
    test = "r.same({0}, {1})" if kind in REALS else "{0} == {1}"
    return lazy(BOOLEAN, _NULL_SAFE.replace("TEST", test.format("{a}", "{b}")), one, other)


_NULL_SAFE = "(({b} := {1}) is None if ({a} := {0}) is None else False if ({b} := {1}) is None else TEST)"
"""One of the two branches runs the second argument's code."""


# -- logic


def _logical(word: str) -> Binder:
    ending, other = ("False", "True") if word == "and" else ("True", "False")
    template = (
        f"({ending} if ({{a}} := {{0}}) is {ending} else {ending} if ({{b}} := {{1}}) is {ending} "
        f"else None if {{a}} is None or {{b}} is None else {other})"
    )

    def bind(arguments: list[Bound]) -> Bound:
        return lazy(BOOLEAN, template, *(_truth(word, each) for each in arguments), arrow=f"{word}_kleene")

    return bind


def _truth(word: str, of: Bound) -> Bound:
    if of.kind == VOID:
        return cast(of, BOOLEAN)
    if of.kind != BOOLEAN:
        raise Refused(f"{word} over {of.kind} is not known here")
    return of


def _not(arguments: list[Bound]) -> Bound:
    return strict(BOOLEAN, "(not {0})", _truth("not", arguments[0]), arrow="invert")


def _negative(arguments: list[Bound]) -> Bound:
    (of,) = arguments
    if of.kind in INTEGERS:
        return strict(of.kind, f"{_bound(of.kind)}(-{{0}})", of, arrow="negate_checked")
    if of.kind in REALS or of.kind.name == "decimal":
        return strict(of.kind, "(-{0})", of)
    raise Refused(f"- over {of.kind} is not known here")


def _concatenated(arguments: list[Bound]) -> Bound:
    one, other = arguments
    if BINARY in (one.kind, other.kind) or "array" in (one.kind.name, other.kind.name):
        raise Refused(f"{one.kind} || {other.kind} is not known here")
    return texts_in_a_row(as_text(one), as_text(other))


def texts_in_a_row(*texts: Bound) -> Bound:
    """Return texts as one; null where one is, and all are computed even then, as Spark interprets `concat`."""
    codes = "".join(f"{{{at}}}, " for at in range(len(texts)))
    return lazy(STRING, f"(None if None in ({{a}} := ({codes})) else ''.join({{a}}))", *texts, arrow="concat")


OPERATORS: dict[str, Binder] = {
    **{sign: _arithmetic(sign) for sign in ("+", "-", "*", "/", "%", "div")},
    **{sign: _compared(sign) for sign in ("=", "!=", "<", "<=", ">", ">=")},
    "<=>": _null_safe,
    "and": _logical("and"),
    "or": _logical("or"),
    "not": _not,
    "negative": _negative,
    "||": _concatenated,
}
"""By their signs, as the tree has them."""
