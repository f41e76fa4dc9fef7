"""The wheel, the broker, a Streams application and a Connect worker under each Python of this machine (`make wheels`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.spark import java_missing
from tests.packaging.installed import Installed, bootstrap, checked, clean_environment, install, interpreters, wheel

FOUND = interpreters()
WHEEL_BYTES_MAX = 6_000_000
BROKER = "server start --override listeners=PLAINTEXT://127.0.0.1:0 --override log.dirs=data"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
"""Slow: a build takes minutes of a processor, and each environment gets its own PySpark."""


@pytest.fixture(scope="module", params=FOUND)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return FOUND[request.param], wheel(FOUND[request.param], tmp_path_factory.mktemp("wheel") / "made")


@pytest.fixture(scope="module")
def bare(built: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    python, package = built
    return install(python, tmp_path_factory.mktemp("bare") / "env", str(package))


@pytest.fixture(scope="module")
def whole(built: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    if reason := java_missing(os.environ):
        pytest.skip(reason)
    python, package = built
    return install(python, tmp_path_factory.mktemp("whole") / "env", f"{package}[all]")


def test_a_wheel_is_compiled_and_of_a_sane_size(built: tuple[str, Path]) -> None:
    _, package = built
    assert "linux" in package.name, package.name
    assert package.stat().st_size < WHEEL_BYTES_MAX, package.stat().st_size


def test_an_empty_environment_runs_the_compiled_modules(bare: Installed, tmp_path: Path) -> None:
    assert bare.version().rstrip().endswith("(compiled)")
    code = "from ottla.wire import build_mode, walk_is_compiled; print(build_mode(), walk_is_compiled())"
    command = [str(bare.folder / "bin" / "python"), "-c", code]
    assert checked(command, cwd=tmp_path, env=clean_environment({})) == "compiled True\n"


def test_the_examples_come_with_the_wheel(bare: Installed, tmp_path: Path) -> None:
    assert "streams/word_count.py" in bare.run("examples", cwd=tmp_path)
    path = Path(bare.run("examples word_count.py", cwd=tmp_path).strip())
    assert path.is_file() and bare.folder in path.parents


def test_the_installed_broker_serves(bare: Installed, tmp_path: Path) -> None:
    with bare.running(BROKER, cwd=tmp_path) as broker:
        server = bootstrap(broker.until("ready "))
        bare.run(f"topics --bootstrap-server {server} --create --topic greetings", cwd=tmp_path)
        bare.run(f"produce --bootstrap-server {server} greetings", cwd=tmp_path, given="hello\nagain\n")
        assert (
            bare.run(f"consume --bootstrap-server {server} greetings --exit -f %v\\n", cwd=tmp_path) == "hello\nagain\n"
        )
    assert broker.process.returncode == 0


def test_a_streams_application_runs(whole: Installed, tmp_path: Path) -> None:
    words = Path(__file__).parents[2] / "examples" / "streams" / "word_count.py"
    with whole.running(BROKER, cwd=tmp_path) as broker:
        server = bootstrap(broker.until("ready "))
        for topic in ("streams-plaintext-input", "streams-wordcount-output"):
            whole.run(f"topics --bootstrap-server {server} --create --topic {topic}", cwd=tmp_path)
        whole.run(
            f"produce --bootstrap-server {server} streams-plaintext-input",
            cwd=tmp_path,
            given="all streams lead to Kafka\n",
        )
        run = f"streams run {words} --bootstrap-server {server} --master local[2]"
        with whole.running(run, cwd=tmp_path) as application:
            application.until("REBALANCING → RUNNING")
            results = f"consume --bootstrap-server {server} streams-wordcount-output -n 5 -f %k\\n"
            assert sorted(whole.run(results, cwd=tmp_path).split()) == ["all", "kafka", "lead", "streams", "to"]


def test_a_connect_worker_runs_a_connector(whole: Installed, tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("one\ntwo\n")
    with whole.running(BROKER, cwd=tmp_path) as broker:
        server = bootstrap(broker.until("ready "))
        (tmp_path / "worker.properties").write_text(
            f"bootstrap.servers={server}\nlisteners=http://127.0.0.1:0\noffset.storage.file.filename=offsets\n"
            "key.converter=org.apache.kafka.connect.storage.StringConverter\n"
            "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
        )
        (tmp_path / "source.properties").write_text(
            "name=lines\nconnector.class=FileStreamSource\nfile=test.txt\ntopic=connect-test\n"
        )
        with whole.running("connect-standalone worker.properties source.properties", cwd=tmp_path) as worker:
            worker.until("ready ")
            assert (
                whole.run(f"consume --bootstrap-server {server} connect-test -n 2 -f %v\\n", cwd=tmp_path)
                == "one\ntwo\n"
            )


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        ({"PATH": "/nowhere", "CC": "no-such-compiler"}, "no C compiler was found"),
        ({"CC": "false"}, "the C compiler failed"),
    ],
)
def test_without_a_compiler_the_wheel_is_pure_and_says_so(tmp_path: Path, lacking: dict[str, str], reason: str) -> None:
    """pip hides what a build prints; the installed command does not."""
    python = next(iter(FOUND.values()))
    package = wheel(python, tmp_path / "made", lacking)
    assert "py3-none-any" in package.name, package.name
    bare = install(python, tmp_path / "env", str(package))
    said = bare.version()
    assert "(pure)" in said and reason in said
    with bare.running(BROKER, cwd=tmp_path) as broker:
        broker.until(reason)
        broker.until("ready ")
