"""Random values for any message, made from its fields' facts."""

from __future__ import annotations

import random
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import ottla.wire.messages
from ottla.wire import Field, Message

__all__ = ["every_message", "random_message"]

NUMBERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def every_message() -> list[type[Message]]:
    """Return every message class that has a version, in the order of modules."""
    modules = [import_module(f"ottla.wire.messages.{each.name}") for each in iter_modules(ottla.wire.messages.__path__)]
    classes = [getattr(module, name) for module in modules for name in module.__all__]
    return [cls for cls in classes if "VERSIONS" in vars(cls) and cls.VERSIONS[1] >= 0]


def _within(version: int, versions: tuple[int, int] | None) -> bool:
    return versions is not None and versions[0] <= version <= versions[1]


def random_message(cls: type[Message], version: int, rng: random.Random, *, tame: bool = False) -> Any:
    """Return a message whose fields of that version are random; the others have their defaults.

    `tame` keeps numbers small and ids set, for codecs that give some of them a narrower meaning (error codes, times).
    """
    return cls(
        **{field.name: _value(field, version, rng, tame) for field in cls.FIELDS if _within(version, field.versions)}
    )


def _value(field: Field, version: int, rng: random.Random, tame: bool) -> Any:
    if _within(version, field.nullable) and rng.random() < 0.2:
        return None
    if field.kind.startswith("[]"):
        return [_one(field, field.kind[2:], version, rng, tame) for _ in range(rng.randrange(4))]
    return _one(field, field.kind, version, rng, tame)


def _one(field: Field, kind: str, version: int, rng: random.Random, tame: bool) -> Any:
    if kind == "struct":
        assert field.struct is not None
        return random_message(field.struct, version, rng, tame=tame)
    if kind == "bool":
        return rng.random() < 0.5
    if kind in NUMBERS and tame:
        return rng.randrange(100)
    if kind in NUMBERS:
        limit = 1 << NUMBERS[kind]
        return rng.choice([0, 1, -1, limit - 1, -limit, rng.randrange(-limit, limit)])
    if kind in ("uint16", "uint32"):
        return rng.randrange(1 << int(kind[4:]))
    if kind == "float64":
        return rng.random() * 1000
    if kind == "string":
        return "".join(rng.choice("abcé中€-._") for _ in range(rng.choice([0, 1, 5, 130])))
    if kind == "uuid":
        return rng.randbytes(16)
    return rng.randbytes(rng.choice([0, 1, 20, 200]))
