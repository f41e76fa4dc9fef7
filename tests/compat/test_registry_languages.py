"""Go's and npm's clients of schema registries against ours, and the tests that Confluent ships with its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.compat.other_languages import HERE, build_go_registry, build_node_registry
from tests.registry.running import RegistryProcess, running_registry
from tests.server import Server

# Go's and npm's packages are fetched and built first, a minute of a processor; only a change of the API breaks them.
pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]
NUMBERS = count(1)
SECONDS_MAX = 600
GO_MODULE = "github.com/confluentinc/confluent-kafka-go/v2"
NODE_PACKAGE = Path("node_modules", "@confluentinc", "schemaregistry", "dist")


@pytest.fixture
def registry(server: Server) -> Iterator[RegistryProcess]:
    """A registry without anything in it."""
    number = next(NUMBERS)
    overrides = [f"kafkastore.topic=_empty{number}", f"schema.registry.group.id=empty{number}"]
    with running_registry(server.bootstrap, overrides=overrides) as found:
        yield found


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


@pytest.mark.parametrize("client", ["sr", "confluent"])
def test_clients_in_go_find_a_registry_as_they_know_it(registry: RegistryProcess, client: str) -> None:
    done = run([str(build_go_registry()), registry.url, client], HERE)
    assert done.stdout == "as it should be\n", done.stdout + done.stderr


@pytest.mark.parametrize("client", ["confluent", "kafkajs"])
def test_clients_of_npm_find_a_registry_as_they_know_it(registry: RegistryProcess, client: str) -> None:
    done = run(["node", "registry.js", registry.url, client], build_node_registry())
    assert done.stdout == "as it should be\n", done.stdout + done.stderr


def test_what_confluent_kafka_go_tests_of_registries_passes(registry: RegistryProcess, tmp_path: Path) -> None:
    build_go_registry()  # has Go, and the module
    found = run(["go", "list", "-m", "-f", "{{.Dir}}", GO_MODULE], HERE / "go_registry")
    assert found.returncode == 0, found.stderr
    module = tmp_path / "module"
    shutil.copytree(found.stdout.strip(), module, copy_function=shutil.copyfile)
    for each in (module, *module.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    (module / "kafka").mkdir(exist_ok=True)
    (module / "kafka" / "testconf.json").write_text(json.dumps({"SchemaRegistryURL": registry.url}))
    done = run(["go", "test", "./schemaregistry", "-run", "TestClient", "-count=1", "-v"], module)
    if "no required module" in done.stderr or "dial tcp" in done.stderr + done.stdout:
        pytest.skip("what the tests of confluent-kafka-go need is not to be had here")
    assert "--- PASS: TestClient" in done.stdout, done.stdout + done.stderr
    assert "using mock client" not in done.stdout + done.stderr


def test_what_confluents_npm_package_tests_of_registries_passes_but_for_guids(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    folder = build_node_registry()
    shutil.copytree(folder / NODE_PACKAGE, tmp_path / "dist")
    (tmp_path / "node_modules").symlink_to(folder / "node_modules")
    shutil.copy(folder / NODE_PACKAGE.parent / "package.json", tmp_path)
    constants = tmp_path / "dist" / "test" / "test-constants.js"
    constants.write_text(constants.read_text().replace("http://localhost:8081", registry.url))
    jest = str(folder / "node_modules" / ".bin" / "jest")
    spec = "dist/e2e/schemaregistry-client.spec.js"
    done = run([jest, "--json", "--rootDir", str(tmp_path), "--runTestsByPath", spec], tmp_path)
    report: dict[str, Any] = json.loads(done.stdout)
    results = {each["title"]: each for each in report["testResults"][0]["assertionResults"]}
    failed = {title for title, each in results.items() if each["status"] != "passed"}
    # It expects the answer of a registry without GUIDs (Confluent's before version 8), although it asks for all there is.
    assert failed == {"Should register, retrieve, and delete a schema"}, results
    assert '+   "guid"' in "".join(results[failed.pop()]["failureMessages"]), results
    assert len(results) >= 8
