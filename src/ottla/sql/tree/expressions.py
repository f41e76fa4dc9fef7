"""Expressions as frozen values.

`at` is where a node stands in its text, (line, column) from 1; it takes no part in comparing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal as Choice

from ottla.sql.types import SqlType

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NullLiteral:
    """NULL."""

    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BooleanLiteral:
    """TRUE or FALSE."""

    value: bool
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IntegerLiteral:
    """A whole number that fits in 32 bits."""

    value: int
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LongLiteral:
    """A whole number that needs 64 bits."""

    value: int
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DoubleLiteral:
    """A number with an exponent."""

    value: float
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DecimalLiteral:
    """A number with a point."""

    value: Decimal
    at: Place | None = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        """The same digits: 1.0 is not 1.00."""
        return isinstance(other, DecimalLiteral) and self.value.as_tuple() == other.value.as_tuple()

    def __hash__(self) -> int:
        return hash(self.value.as_tuple())


@dataclass(frozen=True, slots=True)
class StringLiteral:
    """A text in single quotes."""

    value: str
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Column:
    """A column, of the source that `source` names or of any."""

    name: str
    source: str | None = None
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LambdaVariable:
    """A parameter of the lambda around it."""

    name: str
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Dereference:
    """`base->field` of a struct."""

    base: Expression
    name: str
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Subscript:
    """`base[index]` of an array (from 1, negative from the end) or a map."""

    base: Expression
    index: Expression
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sign:
    """`-value` or `+value`."""

    sign: Choice["-", "+"]
    value: Expression
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right` of `+ - * / %`."""

    operator: Choice["+", "-", "*", "/", "%"]
    left: Expression
    right: Expression
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values compared."""

    operator: Choice["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]
    left: Expression
    right: Expression
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logical:
    """Two conditions joined."""

    operator: Choice["AND", "OR"]
    left: Expression
    right: Expression
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """A condition turned round."""

    value: Expression
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """`value IS [NOT] NULL`."""

    value: Expression
    negated: bool = False
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Between:
    """`value BETWEEN low AND high`, both included."""

    value: Expression
    low: Expression
    high: Expression
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class In:
    """`value IN (items)`."""

    value: Expression
    items: tuple[Expression, ...]
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Like:
    """`value LIKE pattern [ESCAPE escape]`."""

    value: Expression
    pattern: Expression
    escape: str | None = None
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """CASE, with an operand that each WHEN is compared with, or with conditions."""

    operand: Expression | None
    whens: tuple[tuple[Expression, Expression], ...]
    default: Expression | None = None
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a part of an expression is computed where a setting says other than usual."""

    null_texts: bool = False
    """Whether a null that is cast to STRING is the text `null` (`ksql.cast.strings.preserve.nulls` is false)."""
    whole: bool = False
    """Whether a part that fails makes the whole null, not itself alone (`ksql.nested.error.set.null` is false)."""


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(value AS type)`."""

    value: Expression
    type: SqlType
    at: Place | None = field(default=None, compare=False, repr=False)
    rules: Rules | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments."""

    name: str
    arguments: tuple[Expression, ...]
    at: Place | None = field(default=None, compare=False, repr=False)
    rules: Rules | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Lambda:
    """`(parameters) => body`, an argument of a function."""

    parameters: tuple[str, ...]
    body: Expression
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A unit of time as a function's argument, by its plural name."""

    name: str
    at: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MakeArray:
    """`ARRAY[items]`."""

    items: tuple[Expression, ...]
    at: Place | None = field(default=None, compare=False, repr=False)
    rules: Rules | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class MakeMap:
    """`MAP(key := value, …)`."""

    entries: tuple[tuple[Expression, Expression], ...]
    at: Place | None = field(default=None, compare=False, repr=False)
    rules: Rules | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class MakeStruct:
    """`STRUCT(name := value, …)`."""

    fields: tuple[tuple[str, Expression], ...]
    at: Place | None = field(default=None, compare=False, repr=False)
    rules: Rules | None = field(default=None, repr=False)


Literal = NullLiteral | BooleanLiteral | IntegerLiteral | LongLiteral | DoubleLiteral | DecimalLiteral | StringLiteral
Expression = (
    Literal
    | Column
    | LambdaVariable
    | Dereference
    | Subscript
    | Sign
    | Arithmetic
    | Comparison
    | Logical
    | Not
    | IsNull
    | Between
    | In
    | Like
    | Case
    | Cast
    | Call
    | Lambda
    | TimeUnit
    | MakeArray
    | MakeMap
    | MakeStruct
)
