"""Functions as LIST FUNCTIONS and DESCRIBE FUNCTION tell them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sql import functions
from ottla.sql.commands.entities import Entity, entity
from ottla.sql.errors import SqlError
from ottla.sql.functions.aggregates import AGGREGATES
from ottla.sql.functions.tables import TABLE_FUNCTIONS

AUTHOR = "Ottla"


def functions_entity(statement: str) -> Entity:
    """All functions, by name."""
    found = [
        *({"name": each.name, "type": "SCALAR", "category": "OTHER"} for each in functions.catalogue()),
        *({"name": name, "type": "AGGREGATE", "category": "AGGREGATE"} for name in AGGREGATES),
        *({"name": name, "type": "TABLE", "category": "TABLE"} for name in TABLE_FUNCTIONS),
    ]
    return entity("function_names", statement, functions=sorted(found, key=lambda each: each["name"]))


def function_entity(statement: str, name: str) -> Entity:
    """One function with its signatures; raises SqlError where there is none of the name."""
    scalar, aggregate, table = functions.scalar(name), functions.aggregate(name), functions.table(name)
    signatures: list[Entity]
    if scalar is not None:
        kind, description = "SCALAR", scalar.description
        signatures = [
            _signature(list(map(str, each.signature.parameters)), str(each.signature.returns), each.signature.repeated)
            for each in scalar.overloads
        ]
    elif aggregate is not None:
        kind, description = "AGGREGATE", aggregate.description
        signatures = [_signature(["ANY"] * max(aggregate.columns, 1), "ANY")]
    elif table is not None:
        kind, description = "TABLE", table.description
        signatures = [_signature(["ANY"], "ANY")]
    else:
        raise SqlError(f"Can't find any functions with the name '{name}'")
    shown = [{**each, "description": description} for each in signatures]
    fields = {"name": name.upper(), "description": description, "author": AUTHOR, "version": "", "path": "internal"}
    return entity("describe_function", statement, **fields, functions=shown, type=kind)


def _signature(parameters: Sequence[str], returns: str, repeated: int | None = None) -> Entity:
    arguments = [
        {"name": "", "type": each, "description": "", "isVariadic": at == repeated}
        for at, each in enumerate(parameters)
    ]
    return {"arguments": arguments, "returnType": returns}
