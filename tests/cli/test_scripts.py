"""Kafka's script names: installed as often as they should be, beside a folder that stands for `$KAFKA_HOME`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ottla.cli.commands.home import HOME
from ottla.cli.commands.run_class import CLASSES
from ottla.cli.kafka_names import NO_ZOOKEEPER, SCRIPTS
from ottla.cli.local.server_process import server_arguments
from ottla.cli.main import NOUNS
from ottla.cli.scripts import run_script
from ottla.config import BrokerConfig, parse_properties
from tests.cli.conftest import Run
from tests.cli.guide_lines import LINES, Line
from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = [*SCRIPTS, *NO_ZOOKEEPER]
SECONDS_MAX = 100.0


def test_every_script_is_installed_with_and_without_its_ending() -> None:
    installed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    wanted = {name + ending for name in NAMES for ending in ("", ".sh")}
    assert {name for name in installed if name != "ottla"} == wanted
    assert {installed[name] for name in wanted} == {"ottla.cli.scripts:main"}


def test_the_folder_has_a_script_for_every_name() -> None:
    files = {path.name for path in (HOME / "bin").iterdir()}
    assert files == {f"{name}.sh" for name in NAMES} | {"run", "kafka-run-class"}
    assert all(os.access(HOME / "bin" / name, os.X_OK) for name in files)
    assert len({(HOME / "bin" / name).read_text() for name in files - {"run"}}) == 1


def test_classes_run_scripts_that_exist() -> None:
    assert set(CLASSES.values()) <= set(SCRIPTS)


def test_a_script_whose_noun_is_not_there_yet_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    missing = [name for name, (noun, *_) in SCRIPTS.items() if noun not in NOUNS]
    for name in missing:
        assert run_script(f"{name}.sh", []) == 1
        assert capsys.readouterr().err == f"{name}.sh: not in this version of Ottla; `ottla --help` lists what is\n"


@pytest.mark.parametrize("name", NO_ZOOKEEPER)
def test_zookeeper_is_said_to_be_absent_and_that_is_no_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_script(f"{name}.sh", ["zookeeper.properties"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_an_unknown_class_is_one_sentence(run: Run) -> None:
    found = run("run-class -name x kafka.tools.Nothing --broker-list b")
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith("ottla run-class: kafka.tools.Nothing is no class") and found.err.count("\n") == 1


def test_the_folders_configurations_are_sound() -> None:
    text = (HOME / "config" / "server.properties").read_text()
    config = BrokerConfig.load(text, environment={"HOME": "/h"})
    assert config.warnings == () and config.log_dirs == ("/h/.local/share/ottla/data",)
    assert [str(each) for each in config.client_listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    for path in (HOME / "config").iterdir():
        assert parse_properties(path.read_text()) or path.name == "zookeeper.properties", path


def test_a_copy_can_be_changed_and_is_never_overwritten(run: Run, tmp_path: Path) -> None:
    found = run(f"home --copy {tmp_path / 'kafka'}")
    assert (found.code, found.out) == (0, f"{tmp_path / 'kafka'}\n")
    assert sys.executable in (tmp_path / "kafka" / "bin" / "run").read_text()
    again = run(f"home --copy {tmp_path / 'kafka'}")
    assert again.code == 1 and "is there already" in again.err


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("python3 -m ottla.cli.main server start a.properties", ["a.properties"]),
        ("/venv/bin/python3.11 -Xdev /venv/bin/ottla server start", []),
        ("python /venv/bin/kafka-server-start.sh s.properties", ["s.properties"]),
        ("python -m ottla.cli.scripts /opt/kafka/bin/kafka-server-start.sh s.properties", ["s.properties"]),
        ("python -m ottla.cli.main server stop", None),
        ("python -m ottla.cli.main topics --list", None),
        ("java -cp x kafka.Kafka server.properties", None),
        ("bash /venv/bin/kafka-server-start.sh s.properties", None),
        ("timeout 9 ottla server start", None),
        ("vi ottla server start", None),
        ("", None),
    ],
)
def test_only_a_server_of_ours_is_taken_for_one(command: str, found: list[str] | None) -> None:
    assert server_arguments(command.split()) == found


@pytest.fixture
def kafka_home(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A copy of the folder on a free port and node id of its own, and the environment of a shell that uses it."""
    port = free_port()
    home = tmp_path / "kafka"
    subprocess.run([sys.executable, "-m", "ottla.cli.main", "home", "--copy", home], check=True, capture_output=True)
    properties = home / "config" / "server.properties"
    properties.write_text(properties.read_text().replace(":9092", f":{port}"))
    path = f"{home / 'bin'}:/usr/bin:/bin"
    return home, {"KAFKA_HOME": str(home), "PATH": path, "HOME": str(tmp_path), "PORT": str(port)}


@contextmanager
def begun(command: str, environment: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command line in a shell that becomes the command, until the block ends."""
    line = command.replace("localhost:9092", f"localhost:{environment['PORT']}")
    process = subprocess.Popen(
        ["bash", "-c", f"exec {line}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_guides_command_lines_work_as_they_stand(kafka_home: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    _, environment = kafka_home
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with ExitStack() as stack:
        for line in LINES:
            check_line(line, stack.enter_context(begun(line.command, environment, elsewhere)))
    assert (tmp_path / ".local/share/ottla/data/mycooltopic-0").is_dir()
    assert list(elsewhere.iterdir()) == []


def check_line(line: Line, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    if not line.lasts:
        out, err = process.communicate(line.stdin or "", timeout=SECONDS_MAX)
        assert process.returncode == 0 and re.fullmatch(line.out, out), (line.command, out, err)
        return
    shown = "".join(process.stdout.readline() for _ in range(line.out.count(r"\n") or line.out.count("\n")))
    assert re.fullmatch(line.out, shown), (line.command, shown)
    if "server-start" not in line.command:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 130


def test_a_background_server_is_ready_when_the_command_returns_and_is_stopped_by_its_id(
    kafka_home: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    _, environment = kafka_home
    node_id = 10_000_000 + os.getpid()  # so that no other server of this user is meant
    start = f"kafka-server-start.sh -daemon $KAFKA_HOME/config/server.properties --override node.id={node_id}"
    commands = [start, "kafka-topics.sh --list --bootstrap-server localhost:9092", start]
    stop = f"kafka-server-stop.sh --node-id={node_id}"
    try:
        codes = [one_command(command, environment, tmp_path) for command in commands]
        assert codes == [0, 0, 1]
    finally:
        assert one_command(f"{stop} --process-role=broker", environment, tmp_path) == 0
    assert one_command(stop, environment, tmp_path) == 1
    log = tmp_path / ".local/share/ottla/logs/kafkaServer.out"
    assert f"ready PLAINTEXT://127.0.0.1:{environment['PORT']}" in log.read_text()


def one_command(command: str, environment: dict[str, str], folder: Path) -> int:
    with begun(command, environment, folder) as process:
        process.communicate(timeout=SECONDS_MAX)
        return process.returncode
