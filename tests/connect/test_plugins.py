"""Plugins are found where they are installed, by Java's names and short ones, and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.connect import BadRequestError, ConnectError, PluginKind, discover, validate_connector

NUMBERS = """
from ottla.connect import SourceConnector, SourceRecord, SourceTask

class NumbersTask(SourceTask):
    def start(self, props):
        self.next = self.context.offset({"range": "all"}).get("n", 0)
    def poll(self):
        self.next += 1
        return [SourceRecord(topic="numbers", value=self.next, source_partition={"range": "all"},
                             source_offset={"n": self.next})]

class NumbersConnector(SourceConnector):
    task_class = NumbersTask
"""


@pytest.fixture
def plugin_path(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "ottla_test_numbers.py").write_text(NUMBERS)
    (tmp_path / "ottla_test_broken.py").write_text("import nothing_of_that_name")
    package = tmp_path / "ottla_test_package"
    package.mkdir()
    (package / "__init__.py").write_text("from ottla_test_package.inner import ShoutTransformation")
    (package / "inner.py").write_text(
        "class ShoutTransformation:\n    def configure(self, props): ...\n    def apply(self, record): return record\n"
    )
    yield tmp_path
    for name in [each for each in sys.modules if each.startswith("ottla_test_")]:
        del sys.modules[name]


def test_a_connector_in_a_file_on_the_plugin_path_is_found_by_every_name(plugin_path: Path) -> None:
    plugins = discover([plugin_path])
    for name in ("ottla_test_numbers.NumbersConnector", "NumbersConnector", "Numbers"):
        assert plugins.connector(name).kind is PluginKind.SOURCE
    listed = plugins.listing(connectors_only=True)
    assert listed == [{"class": "ottla_test_numbers.NumbersConnector", "type": "source", "version": "1.0"}]


def test_a_package_is_found_and_a_broken_plugin_is_told_of_and_stops_nothing(plugin_path: Path) -> None:
    plugins = discover([plugin_path])
    assert plugins.find(PluginKind.TRANSFORMATION, "Shout") is not None
    [(location, reason)] = plugins.broken
    assert location.endswith("ottla_test_broken.py") and "nothing_of_that_name" in reason


def test_javas_names_and_short_ones_are_ours() -> None:
    plugins = discover()
    assert (
        plugins.require(PluginKind.CONVERTER, "org.apache.kafka.connect.json.JsonConverter").__name__ == "JsonConverter"
    )
    assert plugins.require(PluginKind.HEADER_CONVERTER, "Simple").__name__ == "SimpleHeaderConverter"
    cast = plugins.require(PluginKind.TRANSFORMATION, "org.apache.kafka.connect.transforms.Cast$Key")
    assert cast.on == "key"
    kinds = {each["type"] for each in plugins.listing(connectors_only=False)}
    assert kinds == {"transformation", "predicate", "converter", "header_converter"}


def test_a_connector_is_validated_with_the_common_keys_and_its_own(plugin_path: Path) -> None:
    plugins = discover([plugin_path])
    found = validate_connector({"name": "n", "connector.class": "Numbers", "tasks.max": "0", "x": None}, plugins)
    errors = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"] if each["value"]["errors"]}
    assert errors == {
        "tasks.max": ["Invalid value 0 for configuration tasks.max: Value must be at least 1"],
        "x": ["Null value can not be supplied as the configuration value."],
    }
    assert (found["name"], found["error_count"], found["groups"][0]) == ("Numbers", 2, "Common")


def test_a_configuration_without_an_installed_connector_cannot_be_validated() -> None:
    with pytest.raises(BadRequestError, match="contains no connector type"):
        validate_connector({"name": "n"}, discover())
    with pytest.raises(BadRequestError, match=r"which name matches x\.Y"):
        validate_connector({"name": "n", "connector.class": "x.Y"}, discover())


@pytest.mark.parametrize("name", ["os.system", "com.example.Missing", "ottla.connect.api.SourceConnector", "json"])
def test_a_class_that_is_not_installed_is_refused_by_name_and_never_imported(name: str) -> None:
    plugins = discover()
    before = set(sys.modules)
    expected = f"Failed to find any class that implements Connector and which name matches {name}, available connectors"
    with pytest.raises(ConnectError, match=expected):
        plugins.connector(name)
    with pytest.raises(ConnectError, match=f"implements Converter and which name matches {name}"):
        plugins.require(PluginKind.CONVERTER, name)
    assert set(sys.modules) == before
