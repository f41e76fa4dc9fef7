"""`docs/connect-plugins.md` says nothing that does not run: its blocks are run here as they stand there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConnectError, PluginKind, SourceConnector, SourceRecord, SourceTask, discover
from tests.connectors.contexts import Store, polled, started, until

PAGE = Path(__file__).parents[2] / "docs" / "connect-plugins.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.S)
SOURCE, SINK, TRANSFORMATION, TRIAL, CONTRACT = (text for kind, text in BLOCKS if kind == "python")
PROPERTIES = [text for kind, text in BLOCKS if kind == "properties"]
PACKAGE = next(text for kind, text in BLOCKS if kind == "toml")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of plugins with the page's two connectors."""
    made = tmp_path / "connectors"
    made.mkdir()
    (made / "weather.py").write_text(SOURCE)
    (made / "printing.py").write_text(SINK)
    yield made
    for name in ("weather", "printing"):
        sys.modules.pop(name, None)


def test_the_connector_is_found_in_a_folder_runs_and_goes_on(folder: Path, tmp_path: Path) -> None:
    plugins = discover([folder])
    assert not plugins.broken
    names = ["weather.WeatherConnector", "WeatherConnector", "Weather"]
    found = {plugins.connector(name).cls for name in names}
    assert len(found) == 1 and plugins.connector("Print").kind is PluginKind.SINK
    props = dict(line.split("=") for line in PROPERTIES[1].splitlines() if "=" in line)
    assert plugins.connector(props["connector.class"]).cls in found
    sensor, store = tmp_path / "sensor.txt", Store()
    sensor.write_text("20.5\n21\n")
    props["sensor"] = str(sensor)
    cls = found.pop()
    assert cls().validate({**props, "sensor": None})["sensor"].value is None
    task = started(cls.task_class(), props, store)
    assert [each.value for each in until(task, bool, store)] == [20.5, 21.0]
    sensor.write_text("20.5\n21\n19\n")
    task = started(cls.task_class(), props, store)
    assert [each.value for each in polled(task)] == [19.0]
    sensor.write_text("20.5\n21\n19\nwarm\n")
    with pytest.raises(ConnectError, match=r"line 4: 'warm.n' is no temperature"):
        polled(task)


def test_the_transformation_is_found_for_keys_and_for_values(folder: Path) -> None:
    (folder / "shout.py").write_text(TRANSFORMATION)
    try:
        plugins = discover([folder])
        assert not plugins.broken
        record = SourceRecord(topic="t", key="ann", value="hello")
        for name, expected in (("shout.Shout$Key", ("ANN!!", "hello")), ("shout.Shout$Value", ("ann", "HELLO!!"))):
            found = plugins.require(PluginKind.TRANSFORMATION, name)()
            found.configure({"mark": "!!"})
            changed = found.apply(record)
            assert (changed.key, changed.value) == expected
            assert found.version == "1.0"
    finally:
        sys.modules.pop("shout", None)


def test_the_source_has_about_thirty_lines_of_code() -> None:
    code = [each for each in SOURCE.splitlines() if each.strip() and not each.strip().startswith(('"""', "#"))]
    assert len(code) <= 40


def installed(target: Path, package: Any) -> None:
    """Make what `pip install --target` makes of the page's package; pip itself would want a network to build it."""
    project = package["project"]
    about = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]
    lines = [
        line for group, named in points.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in named.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for module in package["tool"]["setuptools"]["py-modules"]:
        (target / f"{module}.py").write_text({"weather": SOURCE}[module])


def test_the_package_is_found_by_its_entry_point(tmp_path: Path) -> None:
    target = tmp_path / "plugins" / "weather"
    installed(target, tomllib.loads(PACKAGE))
    script = "import sys, pathlib; from ottla.connect import discover\n"
    script += "found = discover([pathlib.Path(sys.argv[1])]); print(found.connector('Weather').location, found.broken)"
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "plugins")], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == "entry point weather = weather:WeatherConnector ()", ran.stderr


def test_the_contract_is_a_test_that_python_can_read() -> None:
    names = {node.id for node in ast.walk(ast.parse(CONTRACT)) if isinstance(node, ast.Name)}
    assert names >= {"SourceContract", "run_on_model"}


def test_a_task_can_be_tried_without_a_worker(folder: Path, tmp_path: Path) -> None:
    sensor = tmp_path / "sensor.txt"
    sensor.write_text("18.5\n")
    (folder / "trial.py").write_text(TRIAL.replace("/tmp/sensor.txt", str(sensor)))
    ran = subprocess.run([sys.executable, str(folder / "trial.py")], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "[18.5]\n", ran.stderr


class MySourceTask(SourceTask):
    """Reads the lines of a file, one a poll, as the page's last block wants a source to."""

    def start(self, props: Mapping[str, str]) -> None:
        self.props = dict(props)
        self.line = int(self.context.offset({}).get("line", 0))

    def poll(self) -> list[SourceRecord] | None:
        lines = Path(self.props["path"]).read_text().splitlines()
        if self.line >= len(lines):
            return None
        self.line += 1
        return [
            SourceRecord(
                source_partition={},
                source_offset={"line": self.line},
                topic=self.props["topic"],
                value=lines[self.line - 1],
            )
        ]


class MySourceConnector(SourceConnector):
    task_class = MySourceTask

    def task_configs(self, tasks_max: int) -> list[Mapping[str, str]]:
        return [self.props]


def test_the_contract_of_the_page_is_one_that_a_source_can_be_held_to(tmp_path: Path) -> None:
    def my_rows_in(folder: Path) -> str:
        (folder / "rows").write_text("".join(f"row {number}\n" for number in range(5)))
        return str(folder / "rows")

    given: dict[str, Any] = {"MySourceConnector": MySourceConnector, "my_rows_in": my_rows_in}
    exec(compile(CONTRACT, "connect-plugins.md", "exec"), given)
    contract = given["CONTRACT"]
    for scenario in list(contract.scenarios())[::20]:
        folder = tmp_path / str(scenario).replace(" ", "-").replace("/", "-")
        folder.mkdir()
        given["test_nothing_is_lost"](scenario, folder)
