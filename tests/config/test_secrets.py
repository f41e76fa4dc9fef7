"""What of a configuration nobody is shown, and what a configuration that comes back may take with it."""

from __future__ import annotations

import pytest

from ottla.config import (
    BROKER_KEYS,
    CONSUMER_KEYS,
    HIDDEN,
    PRODUCER_KEYS,
    STREAMS_KEYS,
    BrokerConfig,
    ConfigType,
    hidden,
    hidden_text,
    is_placeholder,
    is_secret,
    kept_secrets,
    moved,
    placeholders,
    put_back,
    resolved,
    shown,
)

SECRET = "s3cr/et@x"
PEM = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE\n-----END ENCRYPTED PRIVATE KEY-----"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="s3cr/et@x";'
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize("table", [BROKER_KEYS, CONSUMER_KEYS, PRODUCER_KEYS, STREAMS_KEYS])
def test_every_key_that_kafka_declares_a_password_is_hidden_under_every_prefix(table: dict[str, object]) -> None:
    declared = [name for name, key in table.items() if getattr(key, "type", None) is ConfigType.PASSWORD]
    assert declared or table is STREAMS_KEYS
    for name in declared:
        for prefix in (
            "",
            "producer.override.",
            "ksql.streams.",
            "listener.name.x.plain.",
            "kafkastore.",
            "us.consumer.",
        ):
            assert hidden(prefix + name, "x") == HIDDEN, prefix + name


@pytest.mark.parametrize("table", [BROKER_KEYS, CONSUMER_KEYS, PRODUCER_KEYS, STREAMS_KEYS])
def test_no_other_key_of_kafka_is_hidden_whole(table: dict[str, object]) -> None:
    others = {name: key.type for name, key in table.items() if key.type is not ConfigType.PASSWORD}  # type: ignore[attr-defined]
    assert [name for name, kind in others.items() if is_secret(name, "x", kind)] == []


@pytest.mark.parametrize(
    "name",
    [
        *(
            "mail.smtp.pass",
            "http.accessToken",
            "basic.auth.user.info",
            "schema.registry.basic.auth.user.info",
            "connection.password",
            "db.passwd",
            "client.secret",
        ),
        *(
            "aws.secret.access.key",
            "sasl.jaas.config",
            "ssl.key.password",
            "my.secret.thing",
            "bearer.auth.token",
            "api-key",
        ),
        *("ssl.keystore.key", "KSQL_PASSWORD", "database.pwd", "github.token", "private_key"),
    ],
)
def test_what_is_called_a_secret_is_hidden(name: str) -> None:
    assert hidden(name, "abc") == HIDDEN and hidden(name, "abc", "STRING") == HIDDEN
    assert hidden(name, "${file:/s:k}") == "${file:/s:k}" and hidden(name, "") == "" and hidden(name, None) is None


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.oauthbearer.token.endpoint.url", "basic.auth.credentials.source", "password.encoder.iterations"),
        *(
            "delegation.token.max.lifetime.ms",
            "ssl.keystore.location",
            "aws.access.key.id",
            "errors.tolerance",
            "topics",
        ),
        *("transforms.t.type", "passwords.file", "author", "tokens.max.size"),
    ],
)
def test_what_only_sounds_like_one_is_shown(name: str) -> None:
    assert hidden(name, "abc") == "abc"


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("http://me:s3cr/et@x@host:8081/a?b=c", "http://me:[hidden]@host:8081/a?b=c"),
        ("http://me:s3cret@a:1,https://me:s3cret@b:2", "http://me:[hidden]@a:1,https://me:[hidden]@b:2"),
        ("https://ghp_s3cret@github.com/x", "https://[hidden]@github.com/x"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("mongodb://me:s3cret@a:1,b:2/?authSource=admin", "mongodb://me:[hidden]@a:1,b:2/?authSource=admin"),
        (
            "jdbc:postgresql://h:5/db?user=me&password=s3cret&ssl=true",
            "jdbc:postgresql://h:5/db?user=me&password=[hidden]&ssl=true",
        ),
        (
            "jdbc:sqlserver://h:1433;user=sa;password={s3c;ret};a=b",
            "jdbc:sqlserver://h:1433;user=sa;password=[hidden];a=b",
        ),
        ("jdbc:sqlserver://h:1433;user=sa;password=s3c@ret", "jdbc:sqlserver://h:1433;user=sa;password=[hidden]"),
        ("jdbc:oracle:thin:scott/s3cret@//h:1521/x", "jdbc:oracle:thin:scott/[hidden]@//h:1521/x"),
        ("me:s3cret@proxy:3128", "me:[hidden]@proxy:3128"),
        ("me:s3c,ret@proxy:3128", "me:[hidden]@proxy:3128"),
        ("me:s3cret@a:1, you:s3cret@b:2,c:3", "me:[hidden]@a:1, you:[hidden]@b:2,c:3"),
        ("//me:s3cret@host/x", "//me:[hidden]@host/x"),
        ("Authorization: Basic czNjcmV0, Accept: text/plain", "Authorization: Basic [hidden], Accept: text/plain"),
        ("X-Api-Key:s3cret,X-A:b", "X-Api-Key:[hidden],X-A:b"),
        (f"Bearer {JWT}", "Bearer [hidden]"),
        (f"a {JWT} b", "a [hidden] b"),
        ('{"user": "me", "password": "s3c\\"ret"}', '{"user": "me", "password": "[hidden]"}'),
        (
            "DefaultEndpointsProtocol=https;AccountKey=s3cret==;a=b",
            "DefaultEndpointsProtocol=https;AccountKey=[hidden];a=b",
        ),
        ("https://blob/x?sv=1&sig=s3cret&se=2", "https://blob/x?sv=1&sig=[hidden]&se=2"),
        (PEM, HIDDEN),
        (JAAS, HIDDEN),
        ("http://${file:/s:u}:${file:/s:p}@h", "http://${file:/s:u}:${file:/s:p}@h"),
        ("http://me:${env:P}@h/?token=${env:T}", "http://me:${env:P}@h/?token=${env:T}"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("http://[::1]:8080/a@b", "http://[::1]:8080/a@b"),
        ("mailto:me@host", "mailto:me@host"),
        ("a:1,b:2", "a:1,b:2"),
        ("password:pw,token:tok", "password:pw,token:tok"),
    ],
)
def test_of_an_address_or_a_text_the_secret_is_hidden_and_no_more(value: str, seen: str) -> None:
    assert hidden("any", value) == seen
    assert hidden("any", seen) == seen, "what is shown is shown again"
    assert hidden("any", value, "STRING") == seen


def test_of_a_trace_only_the_secrets_are_hidden() -> None:
    text = f"it failed\n{PEM}\nsasl {JAAS} and basic authentication of jdbc:x://me:s3cret@h/ is over"
    assert (
        hidden_text(text)
        == "it failed\n[hidden]\nsasl [hidden] and basic authentication of jdbc:x://me:[hidden]@h/ is over"
    )


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("login failed, user: me, password: s3cret", "login failed, user: me, password: [hidden]"),
        ("password: hunter", "password: [hidden]"),
        ("password: hunter\nat host: h", "password: [hidden]\nat host: h"),
        ("user: me password: s3cret was refused", "user: me password: [hidden] was refused"),
        ("{'user': 'me', 'password': 'a b', 'x': 1}", "{'user': 'me', 'password': [hidden], 'x': 1}"),
        ('Client secret: "a b" is wrong', "Client secret: [hidden] is wrong"),
        ("api-key : k3y; token:\tt0k", "api-key : [hidden]; token:\t[hidden]"),
        ("password: ${file:/s:p}", "password: ${file:/s:p}"),
        ("ssl.key.password: must not be empty", "ssl.key.password: must not be empty"),
        ("unexpected token: SELECT", "unexpected token: SELECT"),
        ("password:pw,token:tok", "password:pw,token:tok"),
        ("password: [hidden]", "password: [hidden]"),
        (f"session_token: '{'A9/b' * 200}' is over", "session_token: [hidden] is over"),
        (r"""password: "x\"y z" is wrong""", "password: [hidden] is wrong"),
        ('it ends in password: "hunter2', "it ends in password: [hidden]"),
    ],
)
def test_a_secret_behind_a_colon_is_hidden_and_a_sentence_is_not(text: str, seen: str) -> None:
    assert hidden_text(text) == seen
    assert hidden_text(seen) == seen, "what is shown is shown again"


@pytest.mark.parametrize("end", ["\n-----END RSA PRIVATE KEY-----", ""])
def test_of_an_encrypted_key_with_headers_nothing_is_told(end: str) -> None:
    head = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,8A1B\n\nMIIE"
    assert hidden_text(f"it failed {head}{end}") == f"it failed {HIDDEN}"


def test_a_broker_does_not_tell_a_login_in_an_address() -> None:
    key = "sasl.oauthbearer.token.endpoint.url"
    config = BrokerConfig.load("", overrides=[f"{key}=https://me:s3cret@issuer/x"])
    (entry,) = config.entries([key])
    assert (entry.value, entry.sensitive) == (None, True) and "s3cret" not in repr(entry)


def test_a_value_of_any_form_is_looked_at_in_one_pass() -> None:
    pieces = (
        ":thin:a/",
        "password={",
        'password="',
        "eyJ-",
        "://a:",
        "a:@",
        "LoginModule ",
        "${",
        "${:",
        "x=",
        "token",
        "token: ",
        "password: 'a",
    )
    for piece in pieces:
        text = piece * 50_000  # whoever goes over it again and again does not come to its end
        assert hidden("any", text) is not None and placeholders({"a": text}) is not None


def test_placeholders_are_read_as_kafkas_pattern_reads_them() -> None:
    found = placeholders({"a": "${env:A}-${file:/p:k:x}${none}${a${b:c}${::}"})
    assert found == {("env", "", "A"), ("file", "/p", "k:x"), ("a${b", "", "c"), ("", "", "")}
    assert is_placeholder("${a:b}") and not any(
        map(is_placeholder, ("${a}", "${a:b}x", "${a:b}${c:d}", "a:b}", "${a:b"))
    )
    assert resolved({"a": "x${e:A}y${n}${e:B}"}, lambda each: {"A": "1"}.get(each.key)) == {"a": "x1y${n}${e:B}"}


STORED = {"connection.url": "jdbc:x://me:pw@h/db", "connection.password": "pw", "tasks.max": "1", "http.port": "1"}


def test_a_mark_that_comes_back_is_what_is_stored_and_no_other_is() -> None:
    seen = shown(STORED)
    assert put_back({**seen, "tasks.max": "2"}, STORED, seen) == ({**STORED, "tasks.max": "2"}, [])
    other = {**seen, "connection.url": "jdbc:x://me:[hidden]@evil/db", "new": HIDDEN}
    assert put_back(other, STORED, seen)[1] == ["connection.url", "new"]
    assert put_back({"a": HIDDEN}, {}, {}) == ({"a": HIDDEN}, ["a"])


def test_secrets_that_were_not_given_anew_are_known_as_kept() -> None:
    seen = shown(STORED)
    whole = {**STORED, "http.port": "2"}
    assert kept_secrets({"http.port": "2"}, STORED, whole, seen) == ["connection.password", "connection.url"]
    assert kept_secrets({**whole}, STORED, whole, seen) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        *(
            ({"tasks.max": "9"}, []),
            ({"table.include.list": "a.b"}, []),
            ({"batch.size": "9"}, []),
            ({"query": "x"}, []),
        ),
        ({"errors.deadletterqueue.topic.name": "d"}, []),
        ({"connection.url": "jdbc:x://me:pw@evil/db"}, ["connection.url"]),
        *(({each: "x"}, [each]) for each in ("connector.class", "database.hostname", "proxy.host", "s3.endpoint")),
        *(
            ({each: "x"}, [each])
            for each in ("consumer.override.bootstrap.servers", "schema.registry.url", "http.port")
        ),
        *(({each: "x"}, [each]) for each in ("security.protocol", "ssl.truststore.location", "value.converter")),
        *(({"odd": "evil:9092"}, ["odd"]), ({"odd": "ftp://evil/"}, ["odd"])),
    ],
)
def test_a_change_of_where_something_is_reached_is_told_from_tuning(change: dict[str, str], found: list[str]) -> None:
    assert moved(STORED, {**STORED, **change}) == found
    assert moved({**STORED, **change}, {**STORED, **change}) == []


def test_a_text_that_looks_like_what_is_put_away_while_it_is_read_is_hidden() -> None:
    for value in ("\0005\0${env:A}", f"\0{'9' * 5000}\0${{env:A}}", "http://me:\0000\0@h/${env:A}"):
        assert hidden("any", value) == HIDDEN
    assert hidden("any", "a\0b") == "a\0b"


def test_an_address_of_numbers_in_brackets_is_one_that_may_have_moved() -> None:
    assert moved({"target": "[::1]:9092"}, {"target": "[::2]:9092"}) == ["target"]
