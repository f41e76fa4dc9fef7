"""The listener that shards make for their controller is protected where anything of the configuration is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.base import ConfigError, KafkaError
from ottla.cli.local.shard_layout import SECRET_FILE, SHARDS_FILE, shards_of
from ottla.client import BlockingClient
from ottla.config import BrokerConfig, SecurityProtocol
from tests.ports import free_port
from tests.waiting import until

LOGIN = (
    "listeners=SASL_PLAINTEXT://127.0.0.1:9500\nsasl.enabled.mechanisms=PLAIN\n"
    "security.inter.broker.protocol=SASL_PLAINTEXT\nsasl.mechanism.inter.broker.protocol=PLAIN\n"
    "listener.name.sasl_plaintext.plain.sasl.jaas.config="
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="admin" password="s" user_admin="s";\n'
)
STOCK_MAP = "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
ACLS = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:admin\n"


def layout(text: str, count: int = 2) -> list[BrokerConfig]:
    return [BrokerConfig.load(text, overrides=shard.overrides) for shard in shards_of(BrokerConfig.load(text), count)]


def controller(config: BrokerConfig) -> SecurityProtocol:
    return config.listener_named("CONTROLLER").protocol


@pytest.mark.parametrize("more", ["", STOCK_MAP, ACLS, STOCK_MAP + ACLS])
def test_a_controllers_listener_made_for_shards_asks_for_a_login_where_clients_do(tmp_path: Path, more: str) -> None:
    found = layout(f"log.dirs={tmp_path}\n{LOGIN}{more}")
    assert {controller(each) for each in found} == {SecurityProtocol.SASL_PLAINTEXT}
    for each in found:
        assert "password=" in each.static["listener.name.controller.plain.sasl.jaas.config"]
        assert each.client_listeners[0].protocol is SecurityProtocol.SASL_PLAINTEXT
    if more.endswith(ACLS):
        first, own = found[0].authorization.super_users.split(";")
        assert first == "User:admin" and own.startswith("User:shards-")


def test_an_authorizer_alone_is_enough_for_it_to_ask(tmp_path: Path) -> None:
    text = f"log.dirs={tmp_path}\nlisteners=PLAINTEXT://127.0.0.1:9500\n{ACLS}"
    assert {controller(each) for each in layout(text)} == {SecurityProtocol.SASL_PLAINTEXT}


def test_its_secret_is_its_users_alone_and_stands_in_no_argument(tmp_path: Path) -> None:
    text = f"log.dirs={tmp_path / 'data'}\n{LOGIN}"
    before = os.umask(0)
    try:
        shards = shards_of(BrokerConfig.load(text), 2)
    finally:
        os.umask(before)
    file = tmp_path / "data" / SECRET_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    password = file.read_text().split('password="')[1].split('"')[0]
    assert len(password) == 64
    assert not [each for shard in shards for each in shard.overrides if password in each]
    assert shards_of(BrokerConfig.load(text), 2) == shards, "the next start has the same"


def test_the_folder_that_shards_agree_in_is_as_open_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        shards_of(BrokerConfig.load(f"log.dirs={tmp_path / 'above' / 'data'}\n{LOGIN}"), 2)
    finally:
        os.umask(before)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "above").rglob("*")}
    assert modes == {"data": 0o750, SECRET_FILE: 0o600, SHARDS_FILE: 0o600, "shards.lock": 0o600}


def test_a_folder_of_shards_from_before_goes_on_with_its_port_and_cluster(tmp_path: Path) -> None:
    (tmp_path / SHARDS_FILE).write_text('{"cluster_id": "AAAAAAAAAAAAAAAAAAAAAA", "controller_port": "9777"}\n')
    shards = shards_of(BrokerConfig.load(f"log.dirs={tmp_path}\n{LOGIN}"), 2)
    assert {each.cluster_id for each in shards} == {"AAAAAAAAAAAAAAAAAAAAAA"}
    assert "controller.quorum.voters=1@127.0.0.1:9777" in shards[1].overrides


@pytest.mark.parametrize("damaged", ["", "user=", "\\u00", "user=shards-1\n"])
def test_a_login_that_is_not_whole_is_made_anew(tmp_path: Path, damaged: str) -> None:
    text = f"log.dirs={tmp_path}\n{LOGIN}{ACLS}"
    (tmp_path / SECRET_FILE).write_text(damaged)
    for each in layout(text):
        own = each.authorization.super_users.split(";")[1].removeprefix("User:")
        assert f'username="{own}" password="' in each.static["listener.name.controller.plain.sasl.jaas.config"]


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", '{"cluster_id": ""}', '{"cluster_id": "x", "controller_port": "y"}']
)
def test_a_damaged_agreement_of_shards_is_named_with_what_belongs_there(tmp_path: Path, damaged: str) -> None:
    (tmp_path / SHARDS_FILE).write_text(damaged)
    with pytest.raises(ConfigError, match=r"shards\.json .*is damaged.*cluster\.id of meta\.properties"):
        layout(f"log.dirs={tmp_path}\nlisteners=PLAINTEXT://127.0.0.1:9500\n")


def test_a_first_start_that_ends_while_it_writes_leaves_nothing_in_the_next_ones_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"log.dirs={tmp_path}\n{LOGIN}"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", _end)
        layout(text)
    assert not (tmp_path / SHARDS_FILE).exists() and not (tmp_path / SECRET_FILE).exists()
    assert len(layout(text)) == 2


def test_first_starts_at_the_same_moment_agree_on_port_cluster_and_login(tmp_path: Path) -> None:
    for each in range(5):
        config = BrokerConfig.load(f"log.dirs={tmp_path / str(each)}\n{LOGIN}{ACLS}")
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _, config=config: shards_of(config, 2), range(8)))
        assert all(one == found[0] for one in found)
        user = next(text for text in found[0][0].overrides if text.startswith("super.users=")).rpartition("User:")[2]
        assert f"user={user}\n" in (tmp_path / str(each) / SECRET_FILE).read_text()


def test_providers_of_ones_own_stay(tmp_path: Path) -> None:
    own = "config.providers=mine\nconfig.providers.mine.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    assert layout(f"log.dirs={tmp_path}\n{LOGIN}{own}")[0].static["config.providers"] == "mine,ottla-shards"


def test_voters_whose_listener_nobody_named_and_nothing_protects_are_refused_beside_a_login(tmp_path: Path) -> None:
    text = f"log.dirs={tmp_path}\n{LOGIN}controller.quorum.voters=1@one:9600,2@two:9600\n"
    with pytest.raises(ConfigError, match="would ask nobody for a login"):
        shards_of(BrokerConfig.load(text + "process.roles=broker\ncontroller.listener.names=CONTROLLER\n"), 1)


@contextmanager
def serving(folder: Path, count: int) -> Iterator[tuple[int, int, str]]:
    """Run shards with a login and ACLs; yields the client's port, the controller's and what was said."""
    port, config, output = free_port(), folder / "server.properties", folder / "output"
    config.write_text(f"log.dirs={folder / 'data'}\n{LOGIN.replace('9500', str(port))}{ACLS}")
    command = [sys.executable, "-m", "ottla.cli.main", "server", "start", str(config), "--shards", str(count)]
    with output.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        until(lambda: output.read_text().count("ready ") == count or process.poll() is not None, output.read_text)
        assert process.poll() is None, output.read_text()
        voters = next(
            each for each in shards_of(BrokerConfig.load(config.read_text()), count)[0].overrides if "voters" in each
        )
        yield port, int(voters.rpartition(":")[2]), output.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(100)


def test_a_stranger_at_the_controllers_port_of_shards_is_let_do_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, 1) as (_, controllers, said):
        told = f"listening CONTROLLER://127.0.0.1:{controllers} (SASL_PLAINTEXT): other nodes by a login, PLAIN"
        assert told in said.splitlines()
        with pytest.raises((KafkaError, OSError)), BlockingClient(f"127.0.0.1:{controllers}") as client:
            client.metadata(())


def _end(descriptor: int) -> None:
    raise KeyboardInterrupt
