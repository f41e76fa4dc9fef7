"""franz-go comes in by TLS, with every mechanism and with a certificate, renews its logins, is refused where it should."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk, jws

from ottla.cli.main import main
from tests.compat import other_languages
from tests.security.authority import authority, signed
from tests.security.tls_files import key_properties, trust_properties
from tests.server import Server, running_server
from tests.waiting import until

pytestmark = [pytest.mark.compat, pytest.mark.slow]
MODULES = "org.apache.kafka.common.security."
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
USER, PASSWORD = "ann", "anns-secret"
LOGIN_MS = 3000
SECONDS = 5.0
"""How long franz-go writes: longer than a login lasts, so that it has to renew it."""
CA = authority()
KEY = jwk.RSAKey.generate_key(2048, {"kid": "one"})


def token(user: str = USER, key: jwk.RSAKey = KEY) -> str:
    now = time.time()
    claims = {"sub": user, "iat": now, "exp": now + 60, "iss": "https://issuer", "aud": "kafka"}
    return jws.serialize_compact({"alg": "RS256", "kid": "one"}, json.dumps(claims).encode(), key)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a listener for logins and one for certificates."""
    folder = tmp_path_factory.mktemp("franz-go")
    (folder / "jwks.json").write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    url = f"file://{folder / 'jwks.json'}"
    stores = key_properties(folder, signed(CA, "broker"), "listener") | trust_properties(folder, CA)
    settings = (
        "listeners=SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
        "security.inter.broker.protocol=SSL",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f"connections.max.reauth.ms={LOGIN_MS}",
        "delegation.token.secret.key=the cluster's own",
        "sasl.oauthbearer.expected.issuer=https://issuer",
        "sasl.oauthbearer.expected.audience=kafka",
        f"sasl.oauthbearer.jwks.endpoint.url={url}",
        f'listener.name.sasl_ssl.plain.sasl.jaas.config={MODULES}plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        "listener.name.ssl.ssl.client.auth=required",
        *(f"{key}={value}" for key, value in stores.items()),
    )
    formatting = ["storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "--override", f"log.dirs={folder / 'data'}"]
    for mechanism in MECHANISMS[1:3]:
        formatting += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
    (folder / "server.properties").write_text("")
    assert main([*formatting, "-c", str(folder / "server.properties")]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_OPTS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")
        with running_server(folder, overrides=settings) as running:
            yield running


@pytest.fixture(scope="module")
def program() -> Path:
    """franz-go, built."""
    return other_languages.build_franz_go()


def bootstrap(server: Server, protocol: str) -> str:
    """Return where one of the listeners is."""
    begin = f"ready {protocol}://"
    line = until(lambda: next((each for each in server.lines if each.startswith(begin)), ""))
    return line.removeprefix(begin).strip()


def run(program: Path, server: Server, topic: str, folder: Path, **asked: Any) -> subprocess.CompletedProcess[str]:
    """Have franz-go write and read; what is asked is `Protection` of go/secured.go."""
    protocol = "SASL_SSL" if "Mechanism" in asked else "SSL"
    asked = {"Authority": str(server.folder / "trusted.pem"), **asked}
    (folder / "asked.json").write_text(json.dumps(asked))
    command = [str(program), bootstrap(server, protocol), topic, "secured", str(folder / "asked.json")]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


def login(mechanism: str, folder: Path, *, is_wrong: bool = False) -> dict[str, Any]:
    """Return what franz-go logs in by."""
    if mechanism == "OAUTHBEARER":
        stranger = jwk.RSAKey.generate_key(2048, {"kid": "one"})
        (folder / "token").write_text(token(key=stranger if is_wrong else KEY))
        return {"Mechanism": mechanism, "TokenFile": str(folder / "token")}
    return {"Mechanism": mechanism, "User": USER, "Password": "wrong" if is_wrong else PASSWORD}


def succeeded(done: subprocess.CompletedProcess[str]) -> bool:
    """Return whether everything that was written was read."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)["secured"]
    return bool(found["written"] and found["written"] == found["read"])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_franz_go_logs_in_writes_past_the_end_of_its_login_and_reads(
    program: Path, server: Server, topic: str, tmp_path: Path, mechanism: str
) -> None:
    assert succeeded(run(program, server, topic, tmp_path, **login(mechanism, tmp_path), Seconds=SECONDS))
    said = "".join(server.lines)
    assert "was not renewed" not in said and "Traceback" not in said and PASSWORD not in said


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_franz_go_is_refused_with_a_wrong_password_or_a_strangers_token(
    program: Path, server: Server, topic: str, tmp_path: Path, mechanism: str
) -> None:
    done = run(program, server, topic, tmp_path, **login(mechanism, tmp_path, is_wrong=True))
    # a refused token is answered with a reason in JSON first (RFC 7628, 3.2.2), as Kafka does: franz-go stops at that
    says = "unexpected data in oauth response" if mechanism == "OAUTHBEARER" else "SASL_AUTHENTICATION_FAILED"
    assert done.returncode == 1 and says in done.stderr, done.stdout + done.stderr


def test_franz_go_logs_in_by_a_delegation_token(
    program: Path, server: Server, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={server.folder / 'trusted.pem'}\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULES}plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";\n'
    )
    asked = ["delegation-tokens", "--bootstrap-server", bootstrap(server, "SASL_SSL"), "--command-config", str(config)]
    assert main([*asked, "--create", "--max-life-time-period", "-1"]) == 0
    token_id, hmac = capsys.readouterr().out.splitlines()[-1].split()[:2]
    bearer = {"Mechanism": "SCRAM-SHA-256", "User": token_id, "Password": hmac, "IsToken": True}
    assert succeeded(run(program, server, topic, tmp_path, **bearer))


def test_franz_go_writes_and_reads_with_a_certificate(
    program: Path, server: Server, topic: str, tmp_path: Path
) -> None:
    key_properties(tmp_path, signed(CA, "client", hosts=()), "client")
    assert succeeded(run(program, server, topic, tmp_path, Certificate=str(tmp_path / "client.pem")))


def test_franz_go_gets_nowhere_without_a_certificate(program: Path, server: Server, topic: str, tmp_path: Path) -> None:
    done = run(program, server, topic, tmp_path)
    assert done.returncode == 1 and "certificate required" in done.stderr, done.stdout + done.stderr
