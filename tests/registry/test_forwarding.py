"""Who joins the group says where the primary is: no client's login goes there because of that."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from ottla.client import Client
from ottla.registry.election import election_of
from ottla.registry.identities import Identity
from ottla.registry.settings import registry_settings
from tests.hostile.services import HostileServer, hostile_server
from tests.registry.running import RegistryProcess, record, running_registry
from tests.server import Server
from tests.waiting import until


def test_a_member_that_is_no_registry_wins_the_group_and_gets_no_password(broker: Server, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("root: s3cret,admin\n")
    (tmp_path / "jaas").write_text(f'Props {{ a.PropertyFileLoginModule required file="{tmp_path / "users"}"; }};')
    login = {"Authorization": f"Basic {base64.b64encode(b'root:s3cret').decode()}"}
    overrides = [
        *("schema.registry.group.id=thief", "kafkastore.topic=_thief", "kafkastore.topic.replication.factor=1"),
        *("authentication.method=BASIC", "authentication.realm=Props", "leader.eligibility=false"),
        f"java.security.auth.login.config={tmp_path / 'jaas'}",
    ]
    settings = registry_settings(
        {"kafkastore.bootstrap.servers": broker.bootstrap, "schema.registry.group.id": "thief"}, {}
    )

    async def nothing() -> None:
        pass

    async def body(registry: RegistryProcess, thief: HostileServer) -> None:
        port = int(thief.url.rpartition(":")[2])
        client = Client(broker.bootstrap, client_id="thief")
        election = election_of(settings, Identity("127.0.0.1", port), client, take=nothing, leave=lambda: None)
        election.start()

        def known() -> bool:
            return bool(registry.ask("GET", "/health").body["primary_known"])

        try:
            await asyncio.to_thread(until, known, registry.said)
            path, schema = "/subjects/s/versions", {"schema": record("S")}
            found = await asyncio.to_thread(lambda: registry.ask("POST", path, schema, **login))
            assert found.status == 500 and "ottla.inter.instance.hosts" in found.body["message"], found
            assert not thief.asked
        finally:
            await election.close()
            await client.close()

    with (
        hostile_server("text") as thief,
        running_registry(broker.bootstrap, overrides=overrides) as registry,
    ):
        asyncio.run(body(registry, thief))
        assert "s3cret" not in registry.said() and "ottla.inter.instance.hosts names" in registry.said()


@pytest.mark.parametrize(
    ("given", "instance", "sent"),
    [
        ({}, Identity("a", 8081), False),
        ({"ottla.inter.instance.hosts": "A, b:8081"}, Identity("a", 8081), True),
        ({"ottla.inter.instance.hosts": "a, b:8081"}, Identity("b", 8081), True),
        ({"ottla.inter.instance.hosts": "a, b:8081"}, Identity("b", 8082), False),
        ({"ottla.inter.instance.hosts": "a"}, Identity("a", 8081, scheme="https"), False),
    ],
)
def test_logins_are_sent_to_the_hosts_that_the_operator_lists(
    given: dict[str, str], instance: Identity, sent: bool
) -> None:
    settings = registry_settings({"kafkastore.bootstrap.servers": "a:1", **given}, {})
    assert settings.logins_to.takes(instance.url) is sent


@pytest.mark.parametrize(
    "found",
    [
        *({"host": "a/b", "port": 1}, {"host": "x@y", "port": 1}, {"host": "a", "port": 0}, {"host": "a:1", "port": 1}),
        *({"host": "a", "port": 1, "scheme": "file"}, {"host": "", "port": 1}, {"host": "a?b", "port": 1}, {"port": 1}),
    ],
)
def test_a_member_whose_address_is_none_is_no_instance(found: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Identity.of(found)
    assert Identity.of({"host": "::1", "port": 1}).url == "http://[::1]:1"
