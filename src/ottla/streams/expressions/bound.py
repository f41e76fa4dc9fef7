"""A typed expression: every part with its type, and the Python and Arrow code that computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.streams.expressions.kinds import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGERS,
    STRING,
    TIMESTAMP,
    VOID,
    Kind,
    Refused,
    decimal,
)

__all__ = ["Bound", "cast", "common", "constant", "lazy", "strict", "wider_decimal"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A part of an expression.

    `form`: `column` (`value` is its name), `literal` (`value`), `strict` (null where an argument is; `template` is Python
    over their values `{0}`, `{1}` …) or `lazy` (`template` is Python over their code, which it runs or not).
    """

    kind: Kind
    form: str
    template: str = ""
    arguments: tuple[Bound, ...] = ()
    value: Any = None
    arrow: str = ""
    """What computes it over Arrow arrays (`columns.KERNELS`); empty where values are taken one by one."""

    @property
    def is_literal(self) -> bool:
        """True for a constant."""
        return self.form == "literal"

    def columns(self) -> frozenset[str]:
        """Return the names of the columns that it reads."""
        own = frozenset({self.value}) if self.form == "column" else frozenset()
        return own.union(*(each.columns() for each in self.arguments))


def constant(value: Any, kind: Kind) -> Bound:
    """Return a constant."""
    return Bound(kind, "literal", value=value)


def strict(kind: Kind, template: str, *arguments: Bound, arrow: str = "", value: Any = None) -> Bound:
    """Return a part that is null where an argument is null."""
    return Bound(kind, "strict", template, arguments, value, arrow)


def lazy(kind: Kind, template: str, *arguments: Bound, arrow: str = "", value: Any = None) -> Bound:
    """Return a part that runs its arguments' code itself."""
    return Bound(kind, "lazy", template, arguments, value, arrow)


# -- types that meet


def wider_decimal(one: Kind, other: Kind) -> Kind:
    """Return the decimal that holds two types' values, if there is one of 38 digits."""
    left, right = _as_decimal(one), _as_decimal(other)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale > 38:
        raise Refused(f"{one} beside {other} (more than 38 digits) is not known here")
    return decimal(whole + scale, scale)


def _as_decimal(kind: Kind) -> Kind:
    sizes = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
    return kind if kind.name == "decimal" else decimal(sizes[kind.name], 0)


def common(kinds: list[Kind]) -> Kind:
    """Return the type to which Spark brings values that stand in one place; raises Refused where that is not known here."""
    found = kinds[0]
    for each in kinds[1:]:
        found = _common(found, each)
    return found


def _common(one: Kind, other: Kind) -> Kind:
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    if one in INTEGERS and other in INTEGERS:
        return INTEGERS[max(INTEGERS.index(one), INTEGERS.index(other))]
    names = {one.name, other.name}
    if "double" in names and names <= {"double", "float", "decimal", *map(str, INTEGERS)}:
        return DOUBLE
    if "float" in names and names <= {"float", "decimal", *map(str, INTEGERS)}:
        return DOUBLE
    if "decimal" in names and names <= {"decimal", *map(str, INTEGERS)}:
        return wider_decimal(one, other)
    raise Refused(f"{one} beside {other} is not known here: say which by cast")


# -- conversions


def cast(of: Bound, to: Kind, *, safe: bool = False) -> Bound:
    """Return a value as another type, as Spark's cast in ANSI mode; raises Refused for casts that are not known here."""
    kind = of.kind
    if kind == to:
        return of
    if of.is_literal and of.value is None:
        return constant(None, to)
    template, arrow = _cast(kind, to)
    if template == "{0}":
        return strict(to, template, of, arrow=arrow)
    return strict(
        to, f"r.tried(lambda it: {template.format('it')}, {{0}})" if safe else template, of, arrow="" if safe else arrow
    )


def _cast(kind: Kind, to: Kind) -> tuple[str, str]:
    """Return Python for a cast of a value that is not null, and the name of Arrow's."""
    source, target = kind.name, to.name
    whole = [each.name for each in INTEGERS]
    if source in whole and target in whole:
        widening = whole.index(source) < whole.index(target)
        return ("{0}" if widening else f"r.bounds[{target!r}]({{0}})"), "cast" if widening else ""
    if source in whole and target == "double":
        return "float({0})", "cast" if source != "bigint" else ""
    if source in ("tinyint", "smallint") and target == "float":
        return "float({0})", "cast"
    if source == "int" and target == "float":
        return "r.single({0})", ""
    if (source, target) == ("float", "double"):
        return "{0}", "cast"
    if (source, target) == ("double", "float"):
        return "r.single({0})", ""
    if source in ("float", "double") and target in whole:
        return f"r.whole_of({{0}}, {target!r})", ""
    if source == "boolean" and (target in whole or target == "double"):
        return ("int({0})" if target in whole else "float({0})"), ""
    if (source in whole or source in ("float", "double", "decimal")) and target == "boolean":
        return "({0} != 0)", ""
    if target == "string":
        return _to_text(kind), "text_of_whole" if source in whole else ""
    if source == "string":
        return _from_text(kind, to), "text_bytes" if target == "binary" else ""
    if source == "decimal" and target in whole:
        return f"r.decimal_whole({{0}}, {target!r})", ""
    if source == "decimal" and target == "double":
        return "float({0})", ""
    if target == "decimal" and (source == "decimal" or source in whole):
        inner = "{0}" if source == "decimal" else "r.Decimal({0})"
        return f"r.scaled({inner}, {to.precision}, {to.scale})", ""
    if (source, target) == ("timestamp", "bigint"):
        return "({0} // 1000000)", ""
    raise Refused(f"cast of {kind} as {to} is not known here")


def _to_text(kind: Kind) -> str:
    if kind in INTEGERS:
        return "str({0})"
    if kind == BOOLEAN:
        return "r.truth_text({0})"
    if kind == TIMESTAMP:
        return "r.moment_text({0}, zone)"
    if kind.name == "decimal":
        return "r.decimal_text({0})"
    raise Refused(f"cast of {kind} as string is not known here")


def _from_text(kind: Kind, to: Kind) -> str:
    if to in INTEGERS:
        return f"r.whole_in({{0}}, {to.name!r})"
    if to == DOUBLE:
        return "r.real_in({0})"
    if to == BOOLEAN:
        return "r.truth_in({0})"
    if to.name == "binary":
        return "{0}.encode()"
    raise Refused(f"cast of {kind} as {to} is not known here")


def as_text(of: Bound) -> Bound:
    """Return a value as Spark takes it where a text is expected."""
    return of if of.kind == STRING else cast(of, STRING)


def as_long(of: Bound) -> Bound:
    """Return a whole number as a bigint."""
    if of.kind not in INTEGERS:
        raise Refused(f"expected a whole number, got {of.kind}")
    return cast(of, BIGINT)
