"""What a command imports, by names and by count: each module costs its start, and times say nothing on a busy machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.server import running_server

MODULES_MAX = 150
"""Of `ottla` in a command about topics or groups; there were 240 when each package brought all of its parts."""
OF_OTHERS = (
    *("ottla.java", "ottla.config.", "ottla.security.acls", "ottla.security.authorizer", "ottla.security.jaas"),
    *("ottla.security.quotas", "ottla.security.tls", "ottla.security.sasl.scram", "ottla.security.sasl.jwt"),
    *("ottla.client.access_tokens", "ottla.client.tickets", "ottla.client.producer", "ottla.client.group_member"),
    *("ottla.client.transactions", "ottla.admin.reassignments", "ottla.admin.throttles", "ottla.broker", "ottla.log"),
    *("re2", "numpy", "regex", "cryptography", "hmac", "uuid", "difflib"),
)
"""What logins, patterns, brokers and producers need, and none of these commands."""
LATE = (
    "admin",
    "client",
    "config",
    "security",
    "security.sasl",
    "wire",
    "spark",
    "registry",
    "sql_server",
    "connect.tasks",
)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`--bootstrap-server …` of a broker with a topic `t`."""
    with running_server(tmp_path_factory.mktemp("ottla")) as server:
        option = f"--bootstrap-server {server.bootstrap}"
        modules("topics --create --topic t", option)
        yield option


@pytest.mark.parametrize(
    "command",
    [
        "topics --list",
        "topics --create --topic t --if-not-exists",
        "topics --delete --topic nothing --if-exists --yes",
        "topics create t --if-not-exists",
        "groups --list",
        "consumer-groups --list",
        "configs --describe --topic t",
    ],
)
def test_a_command_imports_none_of_what_others_need(at: str, command: str) -> None:
    found = modules(command, at)
    assert sorted(name for name in found if name.startswith(OF_OTHERS)) == []
    assert len([name for name in found if name.startswith("ottla.")]) <= MODULES_MAX


def modules(command: str, at: str) -> list[str]:
    """Return what is imported when a command has ended."""
    code = (
        "import sys; from ottla.cli.main import main; main(sys.argv[1:]); "
        "import json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    words = [sys.executable, "-c", code, *command.split(), *at.split()]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    names: list[str] = json.loads(found.stderr.splitlines()[-1])
    return names


@pytest.mark.parametrize("package", LATE)
def test_each_name_that_comes_late_is_what_its_module_has_also_when_the_module_is_there_already(package: str) -> None:
    module = import_module(f"ottla.{package}")
    for each in {
        getattr(module, name).__module__ for name in module.__all__ if hasattr(getattr(module, name), "__module__")
    }:
        import_module(each)  # it becomes an attribute of its package, in the place of a function of its name
    for name in module.__all__:
        assert not isinstance(getattr(module, name), type(sys)), f"{package}.{name} is a module"
