"""Expressions as text: as messages show them (names as they are), and as SQL that parses to the same again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import assert_never

from ottla.base import plain_text
from ottla.sql.tree import expressions as e
from ottla.sql.types import Quote, backticked
from ottla.sql.words import RESERVED

_OTHER_MEANINGS = frozenset(("ARRAY", "MAP", "STRUCT", "TABLES", "FUNCTION"))
"""Names that mean something else in front of a bracket, or behind DESCRIBE."""
_PLAIN = re.compile(r"[A-Z_][A-Z0-9_@]*")


def plain(name: str) -> str:
    """A name as it is: how messages show names."""
    return name


def quoted(name: str) -> str:
    """A name as SQL: in backticks unless it is upper case and no reserved word."""
    plain_enough = _PLAIN.fullmatch(name) and name not in RESERVED and name not in _OTHER_MEANINGS
    return name if plain_enough else backticked(name)


def string_text(value: str) -> str:
    """A text in single quotes."""
    return "'" + value.replace("'", "''") + "'"


def double_text(value: float) -> str:
    """A DOUBLE as a literal, which has an exponent: 1E0, 1.25E-3."""
    if value == 0:
        return "-0E0" if str(value).startswith("-") else "0E0"
    digits, _, exponent = f"{value!r}".lower().partition("e")
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.removeprefix("-").partition(".")
    power = int(exponent or 0) + len(whole) - 1
    significant = whole + fraction
    lead = len(significant) - len(significant.lstrip("0"))
    significant = significant.lstrip("0").rstrip("0")
    rest = f".{significant[1:]}" if significant[1:] else ""
    return f"{sign}{significant[0]}{rest}E{power - lead}"


def expression_text(expression: e.Expression, quote: Quote = plain) -> str:
    """An expression in ksqlDB's canonical form: every operator in brackets."""
    if isinstance(expression, _LEAVES):
        return _leaf(expression, quote)
    return _branch(expression, quote)


_LEAVES = (
    *(e.NullLiteral, e.BooleanLiteral, e.IntegerLiteral, e.LongLiteral, e.DoubleLiteral, e.DecimalLiteral),
    *(e.StringLiteral, e.Column, e.LambdaVariable, e.TimeUnit),
)
_Leaf = e.Literal | e.Column | e.LambdaVariable | e.TimeUnit


def _leaf(node: _Leaf, quote: Quote) -> str:
    match node:
        case e.NullLiteral():
            return "null"
        case e.BooleanLiteral(value):
            return "true" if value else "false"
        case e.IntegerLiteral(value) | e.LongLiteral(value):
            return str(value)
        case e.DoubleLiteral(value):
            return double_text(value)
        case e.DecimalLiteral(value):
            point = "." if quote is not plain and value.as_tuple().exponent == 0 else ""  # else it would be an INTEGER
            return f"{plain_text(value)}{point}"
        case e.StringLiteral(value):
            return string_text(value)
        case e.Column(name, source):
            return quote(name) if source is None else f"{quote(source)}.{quote(name)}"
        case e.LambdaVariable(name):
            return quote(name)
        case e.TimeUnit(name):
            return name
        case _:
            assert_never(node)


def _listed(items: Iterable[e.Expression], quote: Quote) -> str:
    return ", ".join(expression_text(item, quote) for item in items)


def _branch(node: e.Expression, quote: Quote) -> str:
    def text(inner: e.Expression) -> str:
        return expression_text(inner, quote)

    match node:
        case e.Dereference(base, name):
            return f"{_operand(base, quote)}->{quote(name)}"
        case e.Subscript(base, index):
            return f"{_operand(base, quote)}[{text(index)}]"
        case e.Sign(sign, value):
            inner = f"({text(value)})" if _is_number(value) and quote is not plain else text(value)
            return f"{sign}{' ' if inner.startswith(sign) else ''}{inner}"
        case e.Arithmetic() | e.Comparison() | e.Logical():
            return _chain(node, quote)
        case e.Not(value):
            return f"(NOT {text(value)})"
        case e.IsNull(value, negated):
            return f"({text(value)} IS {'NOT ' if negated else ''}NULL)"
        case e.Between(value, low, high):
            return f"({text(value)} BETWEEN {text(low)} AND {text(high)})"
        case e.In(value, items):
            return f"({text(value)} IN ({_listed(items, quote)}))"
        case e.Like(value, pattern, escape):
            ending = "" if escape is None else f" ESCAPE {string_text(escape)}"
            return f"({text(value)} LIKE {text(pattern)}{ending})"
        case _:
            return _made(node, quote)


def _chain(node: e.Expression, quote: Quote) -> str:
    """A chain of operators, which hangs to the left: in a loop, since it may be longer than the stack."""
    endings: list[str] = []
    while isinstance(node, e.Arithmetic | e.Comparison | e.Logical):
        endings.append(f" {node.operator} {expression_text(node.right, quote)})")
        node = node.left
    return "(" * len(endings) + expression_text(node, quote) + "".join(reversed(endings))


def _is_number(node: e.Expression) -> bool:
    return isinstance(node, e.IntegerLiteral | e.LongLiteral | e.DoubleLiteral | e.DecimalLiteral)


def _operand(node: e.Expression, quote: Quote) -> str:
    """What `->` and `[` stand behind: in brackets where they would bind to a part of it only."""
    text = expression_text(node, quote)
    return f"({text})" if quote is not plain and (isinstance(node, e.Sign) or _is_number(node)) else text


def _made(node: e.Expression, quote: Quote) -> str:
    def text(inner: e.Expression) -> str:
        return expression_text(inner, quote)

    match node:
        case e.Case(operand, whens, default):
            words = ["CASE"] if operand is None else ["CASE", text(operand)]
            words += [when_text(condition, result, quote) for condition, result in whens]
            words += [] if default is None else ["ELSE", text(default)]
            return f"({' '.join(words)} END)"
        case e.Cast(value, type_):
            return f"CAST({text(value)} AS {type_.text(quote)})"
        case e.Call(name, arguments):
            inner = "*" if name == "COUNT" and not arguments else _listed(arguments, quote)
            return f"{quote(name)}({inner})"
        case e.Lambda(parameters, body):
            return f"({', '.join(quote(name) for name in parameters)}) => {text(body)}"
        case e.MakeArray(items):
            return f"ARRAY[{_listed(items, quote)}]"
        case e.MakeMap(entries):
            return f"MAP({', '.join(f'{text(key)}:={text(value)}' for key, value in entries)})"
        case e.MakeStruct(fields):
            return f"STRUCT({', '.join(f'{quote(name)}:={text(value)}' for name, value in fields)})"
        case _:
            raise AssertionError(f"not an expression: {node!r}")


def when_text(condition: e.Expression, result: e.Expression, quote: Quote = plain) -> str:
    """`WHEN condition THEN result` of a CASE."""
    return f"WHEN {expression_text(condition, quote)} THEN {expression_text(result, quote)}"
