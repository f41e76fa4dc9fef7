"""What a plugin can be configured with: keys with types, defaults, validators and recommenders, in Kafka's words.

`ConfigDef.parse` gives typed values or raises ConfigError; `ConfigDef.validate` gives every key's value with all that is
wrong with it; `config_infos` is the answer of Connect's validate endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

from ottla.base import ConfigError
from ottla.config import ConfigType, Password
from ottla.connect.data.java_text import class_of, java_text
from ottla.connect.data.value_text import double_of_text
from ottla.connect.errors import config_error
from ottla.connect.validators import Embedded, Validator, ValidList, invalid
from ottla.java import double_text

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigKey",
    "ConfigValue",
    "Importance",
    "Recommender",
    "Width",
    "config_info",
    "config_infos",
    "key_info",
    "text_of",
]


class Importance(Enum):
    """How much it matters that a key is set."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    """How wide a form should draw a key's field."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()
"""The default of a key that has none: it must be set."""


class Recommender(Protocol):
    """Says which values fit a key, and whether it matters at all, given the other keys' parsed values."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values to offer; empty where any may do."""
        ...

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """Return whether the key has a meaning now."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key."""

    name: str
    type: ConfigType
    default: Any
    importance: Importance
    doc: str
    validator: Validator | None = None
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    internal: bool = False

    @property
    def required(self) -> bool:
        """True where the key has no default."""
        return self.default is REQUIRED


@dataclass(slots=True)
class ConfigValue:
    """What validation found of one key."""

    name: str
    value: Any = None
    recommended: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


def _any_class(name: str) -> str | None:
    return name


class ConfigDef:
    """An ordered set of keys. `classes` finds what a CLASS key names, and None for what is not installed.

    No key loads code: without `classes` a CLASS key keeps its text.
    """

    def __init__(self, *, classes: Callable[[str], Any] = _any_class) -> None:
        self.keys: dict[str, ConfigKey] = {}
        self.groups: list[str] = []
        self.classes = classes

    def define(
        self,
        name: str,
        type_: ConfigType,
        default: Any = REQUIRED,
        *,
        importance: Importance,
        doc: str,
        validator: Validator | None = None,
        group: str | None = None,
        order: int = -1,
        width: Width = Width.NONE,
        display_name: str | None = None,
        dependents: Iterable[str] = (),
        recommender: Recommender | None = None,
        internal: bool = False,
    ) -> ConfigDef:
        """Add a key and return this definition; raises ConfigError for a key defined twice or a default not allowed."""
        if name in self.keys:
            raise config_error(f"Configuration {name} is defined twice.")
        if group is not None and group not in self.groups:
            self.groups.append(group)
        if default is not REQUIRED:
            default = self.parse_type(name, default, type_)
            if validator is not None:
                validator(name, default)
        self.keys[name] = ConfigKey(
            name,
            type_,
            default,
            importance,
            doc,
            validator,
            group,
            order,
            width,
            name if display_name is None else display_name,
            tuple(dependents),
            recommender,
            internal,
        )
        return self

    def embed(self, prefix: str, group: str, other: ConfigDef, *, order: int) -> ConfigDef:
        """Add another definition's keys under a prefix and group, from a place in the group on, sorted as in Kafka."""
        for place, key in enumerate(other.sorted_keys(), order):
            within = group if key.group is None else f"{group}: {key.group}"
            if within not in self.groups:
                self.groups.append(within)
            name, dependents = prefix + key.name, tuple(prefix + each for each in key.dependents)
            rule = None if key.validator is None else Embedded(key.validator, prefix)
            self.keys[name] = replace(key, name=name, group=within, order=place, dependents=dependents, validator=rule)
        return self

    def sorted_keys(self) -> list[ConfigKey]:
        """Return the keys by group and place, those without a default first, then by importance and name."""
        importance = list(Importance)

        def rank(key: ConfigKey) -> tuple[int, int, bool, int, str]:
            group = -1 if key.group is None else self.groups.index(key.group)
            return group, key.order, not key.required, importance.index(key.importance), key.name

        return sorted(self.keys.values(), key=rank)

    def copy(self) -> ConfigDef:
        """Return a definition of the same keys that can be added to."""
        made = ConfigDef(classes=self.classes)
        made.keys, made.groups = dict(self.keys), list(self.groups)
        return made

    def parse(self, props: Mapping[str, Any]) -> dict[str, Any]:
        """Return every key's typed value; raises ConfigError at the first that is missing or not allowed."""
        undefined = self._undefined()
        if undefined:
            raise config_error(
                "Some configurations in are referred in the dependents, but not defined: " + ",".join(undefined)
            )
        return {key.name: self._parsed(key, props) for key in self.keys.values()}

    def _parsed(self, key: ConfigKey, props: Mapping[str, Any]) -> Any:
        if key.name in props:
            value = self.parse_type(key.name, props[key.name], key.type)
        elif key.required:
            raise config_error(f'Missing required configuration "{key.name}" which has no default value.')
        else:
            value = key.default
        if isinstance(key.validator, ValidList) and value is not None:
            value = list(dict.fromkeys(value))
        if key.validator is not None:
            key.validator(key.name, value)
        return value

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is found of every key, and of every dependent that is no key; raises nothing."""
        values = {name: ConfigValue(name) for name in self.keys}
        for name in self._undefined():
            text = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name, errors=[text], visible=False)
        parsed: dict[str, Any] = {}
        roots = self._roots()
        for name in roots:
            self._parse_for_validate(name, props, parsed, values)
        for name in roots:
            self._recommend(name, parsed, values)
        return values

    def _undefined(self) -> list[str]:
        found = (each for key in self.keys.values() for each in key.dependents if each not in self.keys)
        return list(dict.fromkeys(found))

    def _roots(self) -> list[str]:
        dependents = {each for key in self.keys.values() for each in key.dependents}
        return [name for name in self.keys if name not in dependents]

    def _parse_for_validate(
        self, name: str, props: Mapping[str, str | None], parsed: dict[str, Any], values: dict[str, ConfigValue]
    ) -> None:
        key = self.keys.get(name)
        if key is None:
            return
        found, value = values[name], None
        try:
            if name in props:
                value = self.parse_type(name, props[name], key.type)
            elif key.required:
                raise config_error(f'Missing required configuration "{name}" which has no default value.')
            else:
                value = key.default
        except ConfigError as error:
            found.errors.append(str(error))
        if key.validator is not None:
            try:
                key.validator(name, value)
            except ConfigError as error:
                found.errors.append(str(error))
        found.value = value
        parsed[name] = value
        for dependent in key.dependents:
            self._parse_for_validate(dependent, props, parsed, values)

    def _recommend(self, name: str, parsed: Mapping[str, Any], values: dict[str, ConfigValue]) -> None:
        key = self.keys.get(name)
        if key is None:
            return
        if key.recommender is not None:
            found = values[name]
            try:
                offered = list(key.recommender.valid_values(name, parsed))
                before = found.recommended
                found.recommended = [each for each in offered if each in before] if before else offered
                found.visible = key.recommender.visible(name, parsed)
            except ConfigError as error:
                found.errors.append(str(error))
        for dependent in key.dependents:
            self._recommend(dependent, parsed, values)

    def parse_type(self, name: str, value: Any, type_: ConfigType) -> Any:
        """Return a value of the type from its text, or as it is; raises ConfigError in Kafka's words."""
        if value is None:
            return None
        if type_ is ConfigType.CLASS:
            found = self.classes(value.strip()) if isinstance(value, str) else value
            if found is None:
                raise invalid(name, value, f"Class {value} could not be found.")
            return found
        return _PARSERS[type_](name, value)


_BITS = {
    ConfigType.SHORT: (16, "a 16-bit integer (short)"),
    ConfigType.INT: (32, "a 32-bit integer"),
    ConfigType.LONG: (64, "a 64-bit integer (long)"),
}


def _boolean(name: str, value: Any) -> bool:
    lowered = value.strip().lower() if isinstance(value, str) else value
    if lowered in ("true", "false"):
        return bool(lowered == "true")
    if isinstance(value, bool):
        return value
    raise invalid(name, value, "Expected value to be either true or false")


def _string(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    raise invalid(name, value, f"Expected value to be a string, but it was a {class_of(value)}")


def _password(name: str, value: Any) -> Password:
    return value if isinstance(value, Password) else Password(_string(name, value))


def _integer(type_: ConfigType) -> Callable[[str, Any], int]:
    bits, words = _BITS[type_]

    def parse(name: str, value: Any) -> int:
        if isinstance(value, str):
            text = value.strip()
            number = int(text) if len(text) < 40 and re.fullmatch(r"[+-]?\d+", text, re.ASCII) else None
            if number is None or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
                raise invalid(name, value, f"Not a number of type {type_.name}")
            return number
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise invalid(name, value, f"Expected value to be {words}, but it was a {class_of(value)}")

    return parse


def _double(name: str, value: Any) -> float:
    if isinstance(value, str):
        number = double_of_text(value)
        if number is None:
            raise invalid(name, value, "Not a number of type DOUBLE")
        return number
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise invalid(name, value, f"Expected value to be a double, but it was a {class_of(value)}")


def _list(name: str, value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str):
        text = value.strip()
        return [each.strip() for each in text.split(",")] if text else []
    raise invalid(name, value, "Expected a comma separated list.")


_PARSERS: dict[ConfigType, Callable[[str, Any], Any]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _string,
    ConfigType.PASSWORD: _password,
    ConfigType.SHORT: _integer(ConfigType.SHORT),
    ConfigType.INT: _integer(ConfigType.INT),
    ConfigType.LONG: _integer(ConfigType.LONG),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
}


def text_of(value: Any) -> str | None:
    """Return a parsed value as text; a password is `[hidden]`, and a class its Java name where it has one."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return ",".join(java_text(each) for each in value)
    if isinstance(value, type):
        return str(getattr(value, "java_name", f"{value.__module__}.{value.__qualname__}"))
    return double_text(value) if isinstance(value, float) else java_text(value)


def key_info(key: ConfigKey) -> dict[str, Any]:
    """Return a key as Connect's REST interface describes it."""
    return {
        "name": key.name,
        "type": key.type.name,
        "required": key.required,
        "default_value": None if key.required else text_of(key.default),
        "importance": key.importance.value,
        "documentation": key.doc,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width.value,
        "display_name": key.display_name,
        "dependents": list(key.dependents),
    }


def _value_info(value: ConfigValue) -> dict[str, Any]:
    return {
        "name": value.name,
        "value": text_of(value.value),
        "recommended_values": [text_of(each) for each in value.recommended],
        "errors": value.errors,
        "visible": value.visible,
    }


def config_info(key: ConfigKey | None, value: ConfigValue) -> dict[str, Any]:
    """Return one value of a validate answer, with its key's definition where there is one."""
    return {"definition": None if key is None else key_info(key), "value": _value_info(value)}


def config_infos(
    name: str, keys: Mapping[str, ConfigKey], values: Mapping[str, ConfigValue], groups: Sequence[str]
) -> dict[str, Any]:
    """Return the body of a validate answer; values of no key come first, without a definition, as in Kafka."""
    configs: list[dict[str, Any]] = [
        {"definition": None, "value": _value_info(value)} for each, value in values.items() if each not in keys
    ]
    configs += [
        {"definition": key_info(key), "value": _value_info(values[each]) if each in values else None}
        for each, key in keys.items()
    ]
    counted = sum(len(value.errors) for value in values.values())
    return {"name": name, "error_count": counted, "groups": list(groups), "configs": configs}
