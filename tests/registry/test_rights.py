"""Who asks, by a password or an issuer's token, and what that one may do by the cluster's ACLs on topics."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk, jws

from ottla.base import ConfigError
from ottla.registry import RegistryError
from ottla.registry.authorization import Caller, Right, resource_name
from ottla.registry.bearer import bearer_settings
from ottla.registry.rest.declaration import ONCE
from ottla.registry.rest.endpoints import Endpoints
from ottla.registry.service import Registry
from ottla.registry.settings import registry_settings
from ottla.security import Acl, Operation, PatternType, PermissionType, Resource, StandardAuthorizer
from tests.registry.running import AVRO, Asked, RegistryProcess, record, running_registry, start_registry
from tests.server import Server, running_server
from tests.waiting import until

KEY = jwk.RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
ISSUER, AUDIENCE = "https://issuer", "registry"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC_ACLS = "io.confluent.kafka.schemaregistry.security.authorizer.topicacl.SimpleTopicAclAuthorizer"
OAUTH = {"oauthbearer.expected.issuer": ISSUER, "oauthbearer.expected.audience": AUDIENCE}


def token(user: str, key: Any = KEY, **claims: Any) -> str:
    """Return an `Authorization` header."""
    now_s = int(time.time())
    whole = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + 600, **claims}
    header = {"alg": "RS256", "kid": key.kid}
    return f"Bearer {jws.serialize_compact(header, json.dumps(whole).encode(), key, algorithms=['RS256'])}"


def basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def acl(principal: str, operation: Operation, name: str, pattern: PatternType = PatternType.LITERAL) -> Acl:
    return Acl(Resource.TOPIC, name, pattern, f"User:{principal}", "*", operation, PermissionType.ALLOW)


# What is decided, without a process


def test_a_subject_is_its_topics_business_and_other_contexts_are_told_apart() -> None:
    names = ("orders-value", "orders-key", "org.shop.Order", ":.ctx:orders-value", ":.ctx:", "-key")
    assert list(map(resource_name, names)) == ["orders", "orders", "org.shop.Order", ":.ctx:orders", ":.ctx:", ""]


def test_who_may_use_a_topic_may_use_its_subjects_as_far() -> None:
    authorizer = StandardAuthorizer(super_users={"User:root"})
    caller = Caller("User:anna", "1.2.3.4", authorizer)
    with pytest.raises(RegistryError) as refused:
        caller.may(Right.SUBJECT_READ, "orders-value")
    assert refused.value.code == 50301 and Caller("User:root", "1.2.3.4", authorizer).may(Right.SUBJECT_READ, "s")
    entries = [
        acl("anna", Operation.READ, "orders"),
        acl("anna", Operation.WRITE, "pay", PatternType.PREFIXED),
        Acl(*(Resource.TOPIC, "pay-x", PatternType.LITERAL, "User:anna", "*", Operation.ALL, PermissionType.DENY)),
        Acl(
            *(Resource.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:anna", "1.2.3.4"),
            *(Operation.ALTER_CONFIGS, PermissionType.ALLOW),
        ),
    ]
    authorizer.load({bytes([number]): each for number, each in enumerate(entries)})
    reading = {Right.SUBJECT_READ, Right.SUBJECT_COMPATIBILITY_READ}
    of_subjects = [each for each in Right if each.startswith("SUBJECT")]

    def rights(subject: str) -> set[Right]:
        return {each for each in of_subjects if caller.may(each, subject)}

    assert rights("orders-value") == rights("orders-key") == reading
    assert rights("payments-value") == set(of_subjects)
    assert rights("pay-x-value") == rights("other-value") == rights(":.ctx:orders-value") == set()
    assert caller.may(Right.GLOBAL_COMPATIBILITY_WRITE) and caller.may(Right.GLOBAL_COMPATIBILITY_READ)
    assert not Caller("User:anna", "4.3.2.1", authorizer).may(Right.GLOBAL_COMPATIBILITY_READ)
    assert Caller("User:anybody").may(Right.SUBJECT_DELETE, "s"), "without an authorizer everybody may do everything"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"oauthbearer.jwks.endpoint.url": ""}, "jwks.endpoint.url"),
        ({"oauthbearer.jwks.endpoint.url": "http://issuer/keys"}, "jwks.endpoint.url"),
        ({"oauthbearer.expected.issuer": ""}, "expected.issuer"),
        ({"oauthbearer.expected.audience": ""}, "expected.audience"),
        ({"oauthbearer.clock.skew.seconds": "soon"}, "clock.skew.seconds"),
        ({"oauthbearer.ssl.truststore.location": "/nowhere", "oauthbearer.ssl.truststore.type": "X"}, "truststore"),
    ],
)
def test_what_would_take_tokens_unchecked_is_refused_by_its_key(change: dict[str, str], key: str) -> None:
    whole = {"oauthbearer.jwks.endpoint.url": "https://issuer/keys", **OAUTH}
    assert bearer_settings(whole).rules.audience == {AUDIENCE}
    with pytest.raises(ConfigError, match=key):
        bearer_settings({**whole, **change})


def test_methods_and_authorizers_that_are_not_known_here_are_refused() -> None:
    for key, value in (
        ("authentication.method", "KERBEROS"),
        ("confluent.schema.registry.authorizer.class", "a.SchemaRegistryAclAuthorizer"),
        ("auth.ssl.principal.mapping.rules", "RULE:"),
    ):
        with pytest.raises(ConfigError):
            registry_settings({"kafkastore.bootstrap.servers": "a:1", key: value}, {})


# What is answered


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    overrides = [
        *("group.initial.rebalance.delay.ms=0", f"authorizer.class.name={AUTHORIZER}"),
        "super.users=User:ANONYMOUS",
    ]
    with running_server(tmp_path_factory.mktemp("secured"), overrides=overrides) as server:
        command = [sys.executable, "-m", "ottla.cli.main", "acls", "--bootstrap-server", server.bootstrap, "--add"]
        for more in (
            ["--allow-principal", "User:anna", "--operation", "Read", "--topic", "orders"],
            [
                *("--allow-principal", "User:bert", "--operation", "Write", "--topic", "pay"),
                *("--resource-pattern-type", "prefixed"),
            ],
            ["--allow-principal", "User:bert", "--operation", "DescribeConfigs", "--cluster"],
            ["--allow-principal", "User:carl", "--operation", "All", "--topic", "*"],
        ):
            subprocess.run([*command, *more], check=True, capture_output=True, timeout=100)
        yield server


@pytest.fixture(scope="module")
def guarded(secured_broker: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys.json").write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    (folder / "users").write_text("root: secret,admin\nanna: word,user\n")
    (folder / "jaas").write_text(f'Props {{ a.PropertyFileLoginModule required file="{folder / "users"}"; }};')
    overrides = [
        *("authentication.method=BASIC,BEARER", "authentication.realm=Props", "confluent.topic.acl.super.users=root"),
        *(f"java.security.auth.login.config={folder / 'jaas'}", f"{AUTHORIZER_KEY}={TOPIC_ACLS}"),
        *(f"oauthbearer.jwks.endpoint.url=file:{folder / 'keys.json'}", *(f"{k}={v}" for k, v in OAUTH.items())),
    ]
    with running_registry(secured_broker.bootstrap, overrides=overrides) as found:
        yield found


AUTHORIZER_KEY = "confluent.schema.registry.authorizer.class"
ROOT = basic("root:secret")


def asked(registry: RegistryProcess, who: str, method: str, path: str, body: Any = None) -> Asked:
    return registry.ask(method, path, body, Authorization=who)


def put(registry: RegistryProcess, who: str, subject: str, schema: str = AVRO, **more: Any) -> Asked:
    return asked(registry, who, "POST", f"/subjects/{subject}/versions", {"schema": schema, **more})


def denied(found: Asked) -> bool:
    return (found.status, found.body.get("error_code")) == (403, 40301)


def test_a_token_of_the_issuer_is_a_login_and_no_other_is(guarded: RegistryProcess) -> None:
    assert asked(guarded, token("anna"), "GET", "/subjects").status == 200
    other = jwk.RSAKey.generate_key(2048, {"kid": "one"})
    wrong = [
        *(token("anna", aud="another"), token("anna", iss="https://other"), token("anna", exp=1), token("anna", other)),
        *("Bearer", "Bearer x.y.z", basic("anna:wrong"), basic("nobody:"), "Basic !", ""),
    ]
    for each in wrong:
        found = asked(guarded, each, "GET", "/subjects")
        assert (found.status, found.body["error_code"]) == (401, 401), each
        assert found.headers["WWW-Authenticate"] == 'Basic realm="Props", Bearer realm="schema-registry"'
    until(lambda: guarded.ask("GET", "/health").status == 200, guarded.said)


def test_everybody_sees_and_changes_what_the_acls_of_the_topics_allow(guarded: RegistryProcess) -> None:
    anna, bert = token("anna"), token("bert")
    schema_id = put(guarded, ROOT, "orders-value", record("Order")).body["id"]
    hidden = put(guarded, ROOT, "secret-value", record("Hidden")).body["id"]
    assert put(guarded, bert, "payments-value", record("Payment")).status == 200
    assert denied(put(guarded, anna, "orders-value", record("Order2")))
    assert denied(put(guarded, bert, "orders-value", record("Order")))
    assert asked(guarded, basic("anna:word"), "GET", "/subjects").body == ["orders-value"]
    assert asked(guarded, bert, "GET", "/subjects").body == ["payments-value"]
    assert [each["subject"] for each in asked(guarded, anna, "GET", "/schemas").body] == ["orders-value"]
    assert asked(guarded, anna, "GET", f"/schemas/ids/{schema_id}").status == 200
    assert denied(asked(guarded, anna, "GET", f"/schemas/ids/{hidden}"))
    assert denied(asked(guarded, bert, "GET", f"/schemas/ids/{schema_id}/versions"))
    for path in ("/versions", "/versions/1", "/versions/latest/schema", "/metadata?key=a&value=b"):
        assert denied(asked(guarded, anna, "GET", f"/subjects/secret-value{path}"))
    lookup = {"schema": record("Hidden")}
    assert denied(asked(guarded, anna, "POST", "/subjects/secret-value", lookup))
    assert denied(asked(guarded, anna, "POST", "/compatibility/subjects/secret-value/versions", lookup))
    assert denied(asked(guarded, anna, "DELETE", "/subjects/orders-value"))
    assert asked(guarded, bert, "DELETE", "/subjects/payments-value").body == [1]


def test_an_id_is_read_by_who_may_read_one_of_its_subjects(guarded: RegistryProcess) -> None:
    schema = record("Shared")
    shared = put(guarded, ROOT, "hidden-value", schema).body["id"]
    assert put(guarded, ROOT, "orders-key", schema).body["id"] == shared
    anna = token("anna")
    assert asked(guarded, anna, "GET", f"/schemas/ids/{shared}").body == {"schema": schema}
    assert asked(guarded, anna, "GET", f"/schemas/ids/{shared}/subjects").body == ["orders-key"]
    guid = guarded.ask(
        "GET", f"/schemas/ids/{shared}", Authorization=ROOT, Confluent_Accept_Unknown_Properties="true"
    ).body["guid"]
    assert asked(guarded, anna, "GET", f"/schemas/guids/{guid}").status == 200
    assert denied(asked(guarded, token("bert"), "GET", f"/schemas/guids/{guid}/ids"))


def test_what_may_not_be_read_is_not_referred_to_either(guarded: RegistryProcess) -> None:
    assert put(guarded, ROOT, "base-value", record("Base")).status == 200
    references = [{"name": "Base", "subject": "base-value", "version": 1}]
    outer = '{"type":"record","name":"Outer","fields":[{"name":"b","type":"Base"}]}'
    assert denied(put(guarded, token("bert"), "payouts-value", outer, references=references))
    assert put(guarded, ROOT, "payouts-value", outer, references=references).status == 200


def test_settings_of_everything_are_for_who_has_rights_on_the_cluster(guarded: RegistryProcess) -> None:
    anna, bert = token("anna"), token("bert")
    assert asked(guarded, bert, "GET", "/config").status == 200
    assert denied(asked(guarded, anna, "GET", "/config")) and denied(asked(guarded, anna, "GET", "/mode"))
    level = {"compatibility": "NONE"}
    assert denied(asked(guarded, bert, "PUT", "/config", level))
    assert asked(guarded, bert, "PUT", "/config/payments-value", level).status == 200
    assert denied(asked(guarded, bert, "PUT", "/config/orders-value", level))
    assert denied(asked(guarded, bert, "PUT", "/mode/payments-value", {"mode": "IMPORT"}))
    assert denied(asked(guarded, bert, "PUT", "/contexts/.ctx/config", level))
    assert asked(guarded, ROOT, "PUT", "/config", {"compatibility": "BACKWARD"}).status == 200
    assert asked(guarded, anna, "GET", "/contexts").body == ["."]


ODD_NAMES = (
    *(":.__GLOBAL:", ":.:", ":.ctx:", ":*:", ":.__EMPTY:", "::", ":", ":.", ":.__GLOBAL", "__GLOBAL", ":.:__GLOBAL"),
    *(
        "%3A.__GLOBAL%3A",
        "%3a.%5f_GLOBAL:",
        "%253A.__GLOBAL%253A",
        ":.ctx:secret-value",
        ":.:secret-value",
        "pay-alias",
    ),
    *("%2e", "..", "%2F", ":.ctx:pay-value", ":.pay:", "pay:.__GLOBAL:", "-value", ":.ctx:-value", "payments-value"),
)
PREFIXES = ("", "/contexts/.ctx", "/contexts/.", "/contexts/:.:", "/contexts/:.__GLOBAL:", "/contexts/__GLOBAL")


def _walked() -> list[tuple[str, str]]:
    """Return every method and address that names a subject, for every odd name."""
    settings = registry_settings({"kafkastore.bootstrap.servers": "a:1"}, {})
    found = []
    for each in Endpoints(Registry(settings)).all():
        for prefix in ("",) if each.tags & ONCE else PREFIXES:
            names = ODD_NAMES if "{subject}" in each.path or "{context}" in each.path else ("",)
            for name in names:
                path = each.path.replace("{subject}", name).replace("{context}", name)
                found.append((each.method, prefix + path.replace("{version}", "1").replace("{id}", "1")))
    return found


def test_no_name_turns_a_topics_right_into_one_on_more_than_its_subjects(guarded: RegistryProcess) -> None:
    put(guarded, ROOT, "secret-value", record("Hidden"))
    put(guarded, ROOT, ":.ctx:secret-value", record("Hidden"))
    assert asked(guarded, ROOT, "PUT", "/config/pay-alias", {"alias": "secret-value"}).status == 200
    wholes = ("", "/:.:", "/:.__GLOBAL:", "/:.ctx:", "/secret-value", "/:.ctx:secret-value")

    def settings() -> list[Any]:
        found = [asked(guarded, ROOT, "GET", f"/{kind}{each}").body for each in wholes for kind in ("config", "mode")]
        subjects = asked(guarded, ROOT, "GET", "/subjects?subjectPrefix=:*:").body
        return [*found, [each for each in subjects if "secret" in each]]

    before = settings()
    assert before[-1] == ["secret-value", ":.ctx:secret-value"]
    body = {"compatibility": "NONE", "mode": "IMPORT", "schema": record("Other", "f"), "normalize": True}
    for method, path in _walked():
        found = asked(
            guarded, token("bert"), method, path + "?verbose=true&force=true", body if method != "GET" else None
        )
        assert found.status < 500 and "Hidden" not in json.dumps(found.body), (method, path, found)
    assert settings() == before
    for each in wholes[:4]:
        assert denied(asked(guarded, token("carl"), "PUT", f"/config{each}", body)), each
        assert denied(asked(guarded, token("carl"), "DELETE", f"/config{each}")), each
    for method, path in _walked():
        if path.startswith(("/config", "/mode", "/contexts")) and "secret" not in path and "/subjects" not in path:
            asked(guarded, token("carl"), method, path, body if method != "GET" else None)
    assert settings()[:8] == before[:8], "a right on all topics is none on everything"


def test_acls_of_a_cluster_that_keeps_none_do_not_let_a_registry_start(broker: Server, tmp_path: Path) -> None:
    registry = start_registry(broker.bootstrap, overrides=[f"{AUTHORIZER_KEY}={TOPIC_ACLS}"])
    assert registry.process.wait(60) == 1
    assert "needs an authorizer in the cluster, which has none" in registry.said()
