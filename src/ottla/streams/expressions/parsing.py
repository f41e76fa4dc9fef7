"""Spark SQL text → syntax tree, by sqlglot's grammar of Spark's dialect.

Functions stay what they are called in the text: the library's own reading of them is for translation between databases.
Where its grammar and Spark's put brackets differently (`||` beside `+`, comparisons in a row), an expression without
brackets is refused, and so is everything that is not named here.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

from ottla.base import bring_extra
from ottla.streams.expressions.kinds import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VOID,
    Kind,
    Refused,
    decimal,
)
from ottla.streams.expressions.tree import Call, Cast, Field, Item, Literal, Name, Tree

__all__ = ["parsed"]

DEPTH_MAX = 40
"""How deep an expression may be nested."""
TEXT_MAX = 20_000
"""How long an expression may be, in characters."""
_BINARY = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "IntDiv": "div",
    "Mod": "%",
    "DPipe": "||",
    "EQ": "=",
    "NEQ": "!=",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "<=>",
    "And": "and",
    "Or": "or",
}
_LITERALS = re.compile(
    r"""(?<![\w`])[rR](?:'[^']*'|"[^"]*")|(?P<plain>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`[^`]*`|(?P<doubted>--|/\*)""",
    re.DOTALL,
)
"""Texts as Spark reads them, raw ones first; what stands in one begins no other."""
_COMPARISONS = ("EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "Is", "Like", "RegexpLike", "In", "Between")
_TYPES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": STRING,
    "BINARY": BINARY,
    "TIMESTAMPTZ": TIMESTAMP,
}


@lru_cache(1)
def _dialect() -> Any:
    """Return Spark's dialect with functions left as they are; made once, because the library takes 90 ms to import."""
    try:
        from sqlglot.dialects.spark import Spark
    except ModuleNotFoundError:
        raise Refused(f"sqlglot, which reads an expression's text, is not installed: {bring_extra('spark')}") from None
    grammar: Any = Spark.parser_class

    class Plain(grammar):  # type: ignore[misc]
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: grammar.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
        }
        STRICT_CAST = True

    class Dialect(Spark):
        STRICT_CAST = True
        parser_class = Plain

    return Dialect()


@lru_cache(512)
def parsed(text: str) -> Tree:
    """Return an expression's tree; raises Refused for what is no expression, or has something in it that is not known."""
    if len(text) > TEXT_MAX:
        raise Refused(f"an expression of {len(text)} characters; at most {TEXT_MAX}")
    dialect = _dialect()
    from sqlglot.errors import SqlglotError

    try:
        found = dialect.parse(text)
    except SqlglotError as problem:
        raise Refused(f"the text cannot be read ({str(problem).splitlines()[0]})") from None
    except RecursionError:
        raise Refused(f"more than {DEPTH_MAX} levels in one another") from None
    if len(found) != 1 or found[0] is None:
        raise Refused("expected one expression")
    return _Reader(text).read(found[0], 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: Any, depth: int) -> Tree:
        name = type(node).__name__
        if depth > DEPTH_MAX:
            raise Refused(f"more than {DEPTH_MAX} levels in one another")
        if name in _BINARY:
            return self._binary(node, name, depth)
        reader = getattr(self, f"_{name.lower()}", None)
        if reader is None:
            raise Refused(f"{self._said(node, name)} is not known here")
        made: Tree = reader(node, depth + 1)
        return made

    def _said(self, node: Any, name: str) -> str:
        said = getattr(node, "name", "")
        return f"{name} {said}".strip() if isinstance(said, str) else name

    def _all(self, nodes: Any, depth: int) -> tuple[Tree, ...]:
        return tuple(self.read(each, depth) for each in nodes)

    def _binary(self, node: Any, name: str, depth: int) -> Tree:
        mixed: tuple[str, ...] = ("Add", "Sub") if name == "DPipe" else ("DPipe",) if name in ("Add", "Sub") else ()
        if name in _COMPARISONS:
            mixed = (*_COMPARISONS, "Not")
        for each in (node.this, node.expression):
            inner = each.this if type(each).__name__ == "Paren" and type(each.this).__name__ == "Is" else each
            if type(inner).__name__ in mixed and (inner is each or name in _COMPARISONS):
                raise Refused(f"{_BINARY[name]} beside {type(inner).__name__} without brackets")
        return Call(_BINARY[name], self._all((node.this, node.expression), depth + 1))

    # -- leaves

    def _literal(self, node: Any, depth: int) -> Tree:
        return self._text(node.this) if node.is_string else _number(node.this)

    def _text(self, value: str) -> Tree:
        if "\\" in self.text and _has_escapes(self.text):
            raise Refused("a backslash in the text of an expression (escapes are Spark's; r'…' has none)")
        return Literal(value, STRING)

    def _rawstring(self, node: Any, depth: int) -> Tree:
        return Literal(node.this, STRING)

    def _hexstring(self, node: Any, depth: int) -> Tree:
        digits = node.this
        return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"), BINARY)

    def _boolean(self, node: Any, depth: int) -> Tree:
        return Literal(bool(node.this), BOOLEAN)

    def _null(self, node: Any, depth: int) -> Tree:
        return Literal(None, VOID)

    def _neg(self, node: Any, depth: int) -> Tree:
        inner = node.this
        if type(inner).__name__ == "Literal" and not inner.is_string:
            return _number(f"-{inner.this}")
        return Call("negative", (self.read(inner, depth),))

    def _paren(self, node: Any, depth: int) -> Tree:
        return self.read(node.this, depth)

    def _column(self, node: Any, depth: int) -> Tree:
        parts = [each.name for each in node.parts]
        found: Tree = Name(parts[0])
        for each in parts[1:]:
            found = Field(found, each)
        return found

    def _dot(self, node: Any, depth: int) -> Tree:
        if type(node.expression).__name__ != "Identifier":
            raise Refused(
                f"{self._said(node.expression, type(node.expression).__name__)} behind a dot is not known here"
            )
        return Field(self.read(node.this, depth), node.expression.name)

    def _bracket(self, node: Any, depth: int) -> Tree:
        (place,) = node.expressions
        return Item(self.read(node.this, depth), self.read(place, depth))

    # -- operators with words

    def _not(self, node: Any, depth: int) -> Tree:
        return Call("not", (self.read(node.this, depth),))

    def _is(self, node: Any, depth: int) -> Tree:
        kind, inner = type(node.expression).__name__, (self.read(node.this, depth),)
        if kind == "Null":
            return Call("isnull", inner)
        if kind == "Boolean":
            return Call("<=>", (*inner, Literal(bool(node.expression.this), BOOLEAN)))
        raise Refused(f"IS {self._said(node.expression, kind)} is not known here")

    def _in(self, node: Any, depth: int) -> Tree:
        if not node.expressions or (
            len(node.args) > 2 and any(node.args.get(each) for each in ("query", "unnest", "field"))
        ):
            raise Refused("IN with anything but a list is not known here")
        return Call("in", self._all((node.this, *node.expressions), depth))

    def _between(self, node: Any, depth: int) -> Tree:
        value, low, high = self._all((node.this, node.args["low"], node.args["high"]), depth)
        return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))

    def _like(self, node: Any, depth: int) -> Tree:
        found = Call("like", self._all((node.this, node.expression), depth))
        return Call("not", (found,)) if node.args.get("negate") else found

    def _regexplike(self, node: Any, depth: int) -> Tree:
        found = Call("rlike", self._all((node.this, node.expression), depth))
        return Call("not", (found,)) if node.args.get("negate") else found

    def _if(self, node: Any, depth: int) -> Tree:
        other = node.args.get("false")
        if other is None:
            raise Refused("IF without its third argument is not known here")
        return Call("if", self._all((node.this, node.args["true"], other), depth))

    def _case(self, node: Any, depth: int) -> Tree:
        other = node.args.get("default")
        found: Tree = Literal(None, VOID) if other is None else self.read(other, depth)
        subject = None if node.this is None else self.read(node.this, depth)
        for each in reversed(node.args["ifs"]):
            condition, result = self._all((each.this, each.args["true"]), depth)
            if subject is not None:
                condition = Call("=", (subject, condition))
            found = Call("if", (condition, result, found))
        return found

    # -- functions and types

    def _anonymous(self, node: Any, depth: int) -> Tree:
        arguments, names = [], []
        for each in node.expressions:
            inner = each
            if type(each).__name__ == "Alias":
                inner = each.this
                names.append(each.alias)
            else:
                names.append(each.name if type(each).__name__ in ("Column", "Dot") else "")
            arguments.append(self.read(inner, depth))
        return Call(str(node.this).lower(), tuple(arguments), tuple(names))

    def _cast(self, node: Any, depth: int) -> Tree:
        kind, inner = _kind(node.to), node.this
        if kind.name == "decimal" and type(inner).__name__ == "Literal" and inner.is_string:
            return _decimal(inner.this, kind)  # as `10BD` is read
        return Cast(self.read(inner, depth), kind)

    def _trycast(self, node: Any, depth: int) -> Tree:
        return Cast(self.read(node.this, depth), _kind(node.to), safe=True)


@lru_cache(512)
def _has_escapes(text: str) -> bool:
    """Whether another escape than that of a backslash (two of them) stands in a text that is not raw.

    True also where this cannot be told for a comment.
    """
    found = list(_LITERALS.finditer(text))
    plain = ((each["plain"] or "").replace("\\\\", "") for each in found)
    return any(each.lastgroup == "doubted" for each in found) or any("\\" in each for each in plain)


def _kind(node: Any) -> Kind:
    name = str(node.this.value if hasattr(node.this, "value") else node.this).upper()
    if name == "DECIMAL":
        sizes = [int(each.name) for each in node.expressions]
        return decimal(*(sizes + [10, 0][len(sizes) :]))
    if name not in _TYPES or node.expressions:
        raise Refused(f"type {node.sql()} is not known here")
    return _TYPES[name]


def _decimal(text: str, kind: Kind) -> Literal:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) or _number(f"{text}." if "." not in text else text).kind != kind:
        raise Refused(f"cast of string as {kind} is not known here")
    return Literal(Decimal(text), kind)


def _number(text: str) -> Literal:
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    if "." in text:
        value = Decimal(text)
        scale = -int(value.as_tuple().exponent)
        digits = len(value.as_tuple().digits)
        return Literal(value, decimal(max(digits, scale), scale))
    number = int(text)
    for kind, bits in ((INT, 31), (BIGINT, 63)):
        if -(1 << bits) <= number < 1 << bits:
            return Literal(number, kind)
    return Literal(Decimal(number), decimal(len(text.lstrip("-")), 0))
