"""Predicates: whether a transformation is for a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.config import ConfigType
from ottla.connect.config_def import REQUIRED, Importance
from ottla.connect.java_regex import compile_java
from ottla.connect.records import ConnectRecord
from ottla.connect.transforms.part import TRANSFORMS, ConfiguredPlugin, simple_def
from ottla.connect.validators import Composite, NonEmptyString, Regex

__all__ = ["HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"]


class HasHeaderKey(ConfiguredPlugin):
    """True for records with at least one header with the configured name."""

    java_name = TRANSFORMS + "predicates.HasHeaderKey"
    config_def = simple_def(
        ("name", ConfigType.STRING, REQUIRED, NonEmptyString(), Importance.MEDIUM, "The header name.")
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._name: str = settings["name"]

    def test(self, record: ConnectRecord) -> bool:
        """See `Predicate`."""
        return record.header(self._name) is not None


class RecordIsTombstone(ConfiguredPlugin):
    """True for records which are tombstones (i.e. have null value)."""

    java_name = TRANSFORMS + "predicates.RecordIsTombstone"

    def test(self, record: ConnectRecord) -> bool:
        """See `Predicate`."""
        return record.value is None


class TopicNameMatches(ConfiguredPlugin):
    """True for records with a topic name that matches the configured regular expression."""

    java_name = TRANSFORMS + "predicates.TopicNameMatches"
    config_def = simple_def(
        (
            "pattern",
            ConfigType.STRING,
            REQUIRED,
            Composite(NonEmptyString(), Regex()),
            Importance.MEDIUM,
            "A Java regular expression for matching against the name of a record's topic.",
        )
    )

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Take the typed settings."""
        self._pattern = compile_java(settings["pattern"])

    def test(self, record: ConnectRecord) -> bool:
        """See `Predicate`."""
        return record.topic is not None and self._pattern.fullmatch(record.topic) is not None
