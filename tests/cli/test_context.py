"""Contexts: what names the cluster where no option does, in which order, and how the file is kept."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path

import pytest

from ottla.cli.contexts import DEFAULT_BOOTSTRAP, target
from ottla.cli.local.registry_run import registry_settings_of
from ottla.cli.local.sql_run import sql_settings_of
from ottla.cli.options import Options, chosen_cluster
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a working directory without any context."""
    for name in ("OTTLA_CONTEXT", "OTTLA_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "deep")
    return tmp_path


def parsers_of(noun: str) -> list[Options]:
    return import_module(f"ottla.cli.commands.{noun}").parsers()


def parsed(*argv: str) -> tuple[str, str | None]:
    parser = Options("x", "")
    parser.connection()
    args = parser.parse(argv)
    return args.bootstrap_server, args.command_config


def test_each_source_wins_over_the_next(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert target().bootstrap_servers == DEFAULT_BOOTSTRAP
    run("context create home --bootstrap-server home:1")
    run("context create other --bootstrap-server other:2")
    assert parsed() == ("home:1", None)
    (home / "project" / ".ottla.toml").write_text('current = "p"\n[contexts.p]\nbootstrap-servers = "project:3"\n')
    assert parsed() == ("project:3", None)
    monkeypatch.setenv("OTTLA_CONTEXT", "other")
    assert parsed() == ("other:2", None)
    assert parsed("--context", "home") == ("home:1", None)
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "env:4")
    assert parsed() == ("env:4", None)
    assert parsed("--context", "home") == ("home:1", None)
    assert parsed("--bootstrap-server", "flag:5") == ("flag:5", None)


def test_a_contexts_properties_go_to_its_own_brokers_only(run: Run, home: Path) -> None:
    (home / "client.properties").write_text("client.id=x\n")
    run(f"context create a --bootstrap-server a:1 --command-config {home}/client.properties")
    assert parsed() == ("a:1", f"{home}/client.properties")
    assert parsed("--bootstrap-server", "b:1") == ("b:1", None)
    assert parsed("--command-config", "mine") == ("a:1", "mine")


@pytest.mark.parametrize("server", [("registry", "start"), ("sql", "server")])
def test_servers_too_keep_their_topics_in_the_chosen_cluster(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[str, str]
) -> None:
    noun, action = server
    read = registry_settings_of if noun == "registry" else sql_settings_of
    parser = next(each for each in parsers_of(noun) if each.prog.endswith(f" {action}"))
    assert read(None, parser.parse([])).bootstrap == DEFAULT_BOOTSTRAP
    (home / "client.properties").write_text("security.protocol=PLAINTEXT\nclient.id=x\n")
    run(f"context create a --bootstrap-server a:1 --command-config {home}/client.properties")
    run("context create b --bootstrap-server b:1")
    assert read(None, parser.parse([])).bootstrap == "a:1"
    assert chosen_cluster(parser.parse([]))[1] == {"security.protocol": "PLAINTEXT"}
    assert read(None, parser.parse(["--context", "b"])).bootstrap == "b:1"
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "env:4")
    assert read(None, parser.parse([])).bootstrap == "env:4"
    assert read(None, parser.parse(["--bootstrap-server", "flag:5"])).bootstrap == "flag:5"
    name = "kafkastore.bootstrap.servers" if noun == "registry" else "bootstrap.servers"
    (home / "server.properties").write_text(f"{name}=file:6\n")
    assert "file:6" in str(read(str(home / "server.properties"), parser.parse([])).bootstrap)


def test_contexts_are_kept_renamed_and_deleted(run: Run) -> None:
    assert run("context create a --bootstrap-server a:1").out == "Created context a, the current one.\n"
    assert run("context create b --bootstrap-server b:1,c:1").out == "Created context b.\n"
    assert run("context use b").code == 0
    assert run("context rename b prod").code == 0
    listed = json.loads(run("context list -o json").out)
    assert [(each["name"], each["current"]) for each in listed] == [("a", False), ("prod", True)]
    assert "prod" in json.loads(run("context show -o json").out)["saidBy"]
    assert run("context delete prod --dry-run").out == "would forget context prod\n"
    assert run("context delete prod").code == 0
    assert run("context list -o name").out == "a\n"


def test_the_file_is_its_owners_alone_and_readable_again(run: Run, home: Path) -> None:
    run("context create dot.ted-1 --bootstrap-server a:1")
    file = home / "config" / "ottla" / "contexts.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert target().bootstrap_servers == "a:1"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file to somebody else")
def test_another_users_file_is_not_used(run: Run, home: Path) -> None:
    file = home / "project" / ".ottla.toml"
    file.write_text('current = "p"\n[contexts.p]\nbootstrap-servers = "elsewhere:3"\n')
    os.chown(file, 12345, -1)
    found = run("context show -o json")
    assert json.loads(found.out)["bootstrapServers"] == DEFAULT_BOOTSTRAP
    assert "belongs to another user" in found.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("context create", "ottla context create NAME"),
        ("context create x", "--bootstrap-server"),
        ("context create x --bootstrap-server nowhere", "host:port is expected"),
        ("context create x/y --bootstrap-server a:1", "a name of letters"),
        ("context create x --bootstrap-server a:1 --command-config /nowhere/c", "/nowhere/c"),
        ("context use x", "there is no context x"),
        ("context rename x y", "there is no context x"),
        ("topics --context x --list", "there is no context x"),
        ("topics --context x --bootstrap-server a:1 --list", "cannot be used together"),
    ],
)
def test_a_mistake_says_what_is_wrong(run: Run, arguments: str, said: str) -> None:
    found = run(arguments)
    assert found.code == 1
    assert said in found.err and "Traceback" not in found.err


@pytest.mark.parametrize(
    "text", ["contexts = 1", "[contexts", "[contexts.a]\nfoo = 1", "[contexts.a]\n", "[contexts]\na = 1"]
)
def test_a_malformed_file_is_named(run: Run, home: Path, text: str) -> None:
    (home / "project" / ".ottla.toml").write_text(text)
    found = run("topics --list")
    assert found.code == 1 and "Traceback" not in found.err
    assert ".ottla.toml" in found.err or "context" in found.err
