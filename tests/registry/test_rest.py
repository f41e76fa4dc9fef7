"""The interface over HTTP: Confluent's paths, bodies, statuses and words, of a real instance over a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from urllib.parse import quote

import pytest

from tests.registry.running import AVRO, V1, RegistryProcess, record, running_registry
from tests.server import Server


def test_a_schema_is_registered_found_and_deleted(registry: RegistryProcess, subject: str) -> None:
    schema_id = registry.register(subject, record("First", "a"))
    assert registry.register(subject, record("First", "a")) == schema_id
    text = record("First", "a")
    assert registry.get(f"/schemas/ids/{schema_id}") == {"schema": text}
    shown = {"subject": subject, "version": 1, "id": schema_id, "schema": text}
    assert registry.get(f"/subjects/{subject}/versions/1") == shown
    assert registry.get(f"/subjects/{subject}/versions/latest") == shown
    assert registry.get(f"/subjects/{subject}/versions/-1") == shown
    assert registry.ask("POST", f"/subjects/{subject}", {"schema": text}).body == shown
    assert registry.get(f"/subjects/{subject}/versions") == [1]
    assert registry.get(f"/subjects/{subject}/versions/1/schema") == json.loads(text)
    assert registry.get(f"/schemas/ids/{schema_id}/schema") == json.loads(text)
    assert registry.get(f"/schemas/ids/{schema_id}/subjects") == [subject]
    assert registry.get(f"/schemas/ids/{schema_id}/versions") == [{"subject": subject, "version": 1}]
    assert registry.get(f"/subjects?subjectPrefix={subject}") == [subject]
    assert shown in registry.get("/schemas")
    assert registry.ask("DELETE", f"/subjects/{subject}").body == [1]
    assert registry.error("GET", f"/subjects/{subject}/versions/1") == (404, 40401, f"Subject '{subject}' not found.")
    assert registry.ask("DELETE", f"/subjects/{subject}?permanent=true").body == [1]


def test_clients_that_take_more_fields_get_them(registry: RegistryProcess, subject: str) -> None:
    more = {"Confluent_Accept_Unknown_Properties": "true"}
    found = registry.ask("POST", f"/subjects/{subject}/versions", {"schema": record("More")}, **more).body
    guid = found["guid"]
    assert found == {"id": found["id"], "version": 1, "guid": guid}
    assert registry.ask("GET", f"/schemas/ids/{found['id']}", **more).body == {"schema": record("More"), "guid": guid}
    assert registry.get(f"/schemas/guids/{guid}") == {"schema": record("More")}
    assert registry.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": found["id"]}]
    assert registry.error("GET", "/schemas/guids/nonsense")[1] == 40403


def test_what_does_not_fit_is_refused_and_said(registry: RegistryProcess, subject: str) -> None:
    registry.register(subject, record("R"))
    status, code, words = registry.error("POST", f"/subjects/{subject}/versions", {"schema": record("R", "x")})
    assert (status, code) == (409, 40901)
    begin = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: ['
    assert words.startswith(begin) and "READER_FIELD_MISSING_DEFAULT_VALUE" in words and "oldSchemaVersion: 1" in words
    path = f"/compatibility/subjects/{subject}/versions"
    assert registry.ask("POST", path, {"schema": record("R", "x")}).body == {"is_compatible": False}
    found = registry.ask("POST", f"{path}/latest?verbose=true", {"schema": record("R", "x")}).body
    assert not found["is_compatible"] and "READER_FIELD_MISSING_DEFAULT_VALUE" in found["messages"][0]
    found = registry.ask("POST", f"{path}/1?verbose=true", {"schema": record("R")}).body
    assert found == {"is_compatible": True, "messages": []}
    assert registry.error("POST", f"{path}/9", {"schema": AVRO})[1] == 40402
    assert registry.error("POST", "/compatibility/subjects/nobody/versions/latest", {"schema": AVRO})[1] == 40401
    assert registry.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"}).body == {"compatibility": "NONE"}
    assert registry.get(f"/config/{subject}") == {"compatibilityLevel": "NONE"}
    registry.register(subject, record("R", "x"))
    assert registry.get(f"/subjects/{subject}/versions") == [1, 2]


def test_what_is_no_schema_is_refused(registry: RegistryProcess, subject: str) -> None:
    path = f"/subjects/{subject}/versions"
    status, code, words = registry.error("POST", path, {"schema": "{ this is none"})
    assert (status, code) == (422, 42201)
    begin = (
        f"Invalid schema {{subject={subject},version=0,id=-1,schemaType=AVRO,references=[],metadata=null,ruleSet=null,"
        "schema={ this is none} with refs [] of type AVRO, details: "
    )
    assert words.startswith(begin)
    assert registry.error("POST", path, {"schema": "x", "schemaType": "XML"}) == (422, 42201, "Invalid schema type XML")
    assert registry.error("POST", path, {"schema": ""}) == (422, 42201, "Empty schema")
    reference = [{"name": "Missing", "subject": "nope", "version": 1}]
    words = registry.error("POST", path, {"schema": AVRO, "references": reference})[2]
    assert words.endswith('details: No schema reference found for subject "nope" and version 1')


def test_fields_that_nobody_knows_are_passed_over(registry: RegistryProcess, subject: str) -> None:
    body: dict[str, object] = {
        "schema": record("Known"),
        "references": [],
        "metadata": None,
        "ruleSet": None,
        "tomorrow": {"a": 1},
    }
    assert registry.ask("POST", f"/subjects/{subject}/versions", body).status == 200


def test_metadata_and_rules_are_kept_and_given_back(registry: RegistryProcess, subject: str) -> None:
    metadata = {"properties": {"owner": "us"}, "tags": {"**.a": ["PII"]}}
    rule = {"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true", "disabled": False}
    body = {"schema": record("Kept", "a"), "metadata": metadata, "ruleSet": {"domainRules": [rule]}}
    assert registry.ask("POST", f"/subjects/{subject}/versions", body).status == 200
    found = registry.get(f"/subjects/{subject}/versions/1")
    assert (found["metadata"], found["ruleSet"]) == (metadata, {"domainRules": [rule]})
    assert registry.get(f"/subjects/{subject}/metadata?key=owner&value=us")["version"] == 1
    assert registry.error("GET", f"/subjects/{subject}/metadata?key=owner&value=them")[1] == 40403
    wrong = {**body, "ruleSet": {"domainRules": [rule, rule]}}
    assert registry.error("POST", f"/subjects/{subject}/versions", wrong)[1] == 42210


def test_subjects_may_have_any_character_that_an_address_can_carry(registry: RegistryProcess) -> None:
    name = "a/b c%d:é.value"
    registry.register(quote(name, safe=""), record("Odd"))
    assert registry.get(f"/subjects/{quote(name, safe='')}/versions") == [1]
    assert name in registry.get("/subjects")
    assert registry.error("POST", "/subjects/%3A.c%3A/versions", {"schema": AVRO})[1] == 42208


def test_a_context_is_a_prefix_of_every_address(registry: RegistryProcess, subject: str) -> None:
    ours = registry.register(subject, record("Here"))
    found = registry.ask("POST", f"/contexts/.there/subjects/{subject}/versions", {"schema": record("There")}).body
    assert found == {"id": 1}
    assert registry.get("/contexts/.there/subjects") == [f":.there:{subject}"]
    assert registry.get("/contexts/.there/schemas/ids/1") == {"schema": record("There")}
    assert registry.get(f"/subjects/:.there:{subject}/versions/1")["schema"] == record("There")
    assert registry.get(f"/schemas/ids/{ours}") == {"schema": record("Here")}
    assert ".there" in registry.get("/contexts")
    assert registry.ask("PUT", "/contexts/.there/config", {"compatibility": "NONE"}).status == 200
    assert registry.get(f"/contexts/.there/config/{subject}?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    assert registry.get(f"/config/{subject}?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    assert registry.error("DELETE", "/contexts/.there")[1] == 42211


def test_modes_are_set_shown_and_removed(registry: RegistryProcess, subject: str) -> None:
    assert registry.get("/mode") == {"mode": "READWRITE"}
    assert registry.ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"}).body == {"mode": "IMPORT"}
    assert registry.register(subject, record("Imported"), id=4242, version=7) == 4242
    assert registry.get(f"/subjects/{subject}/versions") == [7]
    assert registry.ask("DELETE", f"/mode/{subject}").body == {"mode": "IMPORT"}
    assert registry.error("GET", f"/mode/{subject}")[1] == 40409


def test_references_lead_from_one_schema_to_another(registry: RegistryProcess, subject: str) -> None:
    registry.register(f"{subject}-money", record("Money", "cents"))
    order = '{"type":"record","name":"Order","fields":[{"name":"price","type":"Money"}]}'
    references = [{"name": "Money", "subject": f"{subject}-money", "version": 1}]
    schema_id = registry.register(subject, order, references=references)
    assert registry.get(f"/schemas/ids/{schema_id}") == {"schema": order, "references": references}
    assert registry.get(f"/subjects/{subject}-money/versions/1/referencedby") == [schema_id]
    assert registry.error("DELETE", f"/subjects/{subject}-money/versions/1")[1] == 42206
    resolved = registry.get(f"/schemas/ids/{schema_id}?format=resolved")["schema"]
    assert '"cents"' in resolved


@pytest.mark.parametrize(
    "accept, status, kind",
    [
        ("*/*", 200, V1),
        ("application/json", 200, "application/json"),
        ("application/vnd.schemaregistry+json, application/json; q=0.9", 200, "application/vnd.schemaregistry+json"),
        ("text/html, application/json;q=0.5", 200, "application/json"),
        ("text/html", 406, V1),
    ],
)
def test_answers_are_of_the_type_that_is_asked_for(
    registry: RegistryProcess, accept: str, status: int, kind: str
) -> None:
    found = registry.ask("GET", "/subjects", Accept=accept)
    assert (found.status, found.headers["Content-Type"]) == (status, kind)


@pytest.mark.parametrize(
    "body, kind, status",
    [
        (b"{}", "text/xml", 415),
        (b"", V1, 422),
        (b"{", V1, 400),
        (b"[]", V1, 400),
        (b"[" * 100_000, V1, 400),
        (b'{"schema": {"type": "string"}}', V1, 400),
        (b'{"schema": "\\ud800"}', V1, 400),
        (b'{"schema": "x", "references": [{"name": "a"}]}', V1, 422),
        (b'{"schema": "x", "version": 99999999999999}', V1, 400),
        (b"x" * (5 << 20), V1, 413),
        (b'{"schema":"\\"string\\""}', "application/json", 200),
        (b'{"schema":"\\"string\\""}', "application/octet-stream", 200),
    ],
)
def test_bodies_are_taken_or_refused_by_what_they_are(
    registry: RegistryProcess, subject: str, body: bytes, kind: str, status: int
) -> None:
    found = registry.ask("POST", f"/subjects/{subject}/versions", body, Content_Type=kind)
    assert found.status == status, found
    assert status == 200 or found.body["error_code"] == status


def test_a_schema_that_takes_too_much_costs_only_its_own_answer(registry: RegistryProcess, subject: str) -> None:
    deep = '{"type":"array","items":' * 20_000 + '"int"' + "}" * 20_000
    assert registry.error("POST", f"/subjects/{subject}/versions", {"schema": deep})[1] == 42201
    assert registry.register(subject, record("Next")) > 0


def test_small_things_are_answered_as_confluent_does(registry: RegistryProcess) -> None:
    assert registry.get("/") == {}
    assert registry.ask("POST", "/").body == {}
    assert sorted(registry.get("/schemas/types")) == ["AVRO", "JSON", "PROTOBUF"]
    assert registry.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.get("/v1/metadata/id")["scope"]["clusters"]["schema-registry-cluster"] == "schema-registry"
    assert "version" in registry.get("/v1/metadata/version")
    assert registry.error("GET", "/nowhere") == (404, 404, "HTTP 404 Not Found")
    for address in ("/associations", "/associations/resources/r", "/subjects/s/versions/1/tags", "/exporters"):
        assert registry.error("POST", address, {}) == (404, 404, "HTTP 404 Not Found")
    tagging = {"schema": record("T"), "schemaTagsToAdd": [{"tags": ["PII"]}]}
    assert registry.error("POST", "/subjects/tagged/versions", tagging)[1] == 42205
    assert registry.error("PATCH", "/subjects") == (405, 405, "HTTP 405 Method Not Allowed")
    assert registry.error("GET", "/subjects/nobody/versions/x")[1] == 42202
    assert registry.error("GET", "/schemas/ids/99999")[1:] == (40403, "Schema 99999 not found")
    assert registry.error("PUT", "/config", {"compatibility": "WRONG"})[1] == 42203


def test_names_and_passwords_are_asked_for(broker: Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("access")
    (folder / "users").write_text("anna: secret,admin\nbob: other,guest\n")
    module = "org.eclipse.jetty.jaas.spi.PropertyFileLoginModule"
    (folder / "jaas").write_text(f'Props {{\n  {module} required\n  file="{folder / "users"}"\n  debug="false";\n}};\n')
    overrides = [
        *("authentication.method=BASIC", "authentication.realm=Props", "authentication.roles=admin"),
        *(f"java.security.auth.login.config={folder / 'jaas'}", "schema.registry.group.id=guarded"),
        "kafkastore.topic=_guarded",
    ]
    with running_registry(broker.bootstrap, overrides=overrides) as registry:
        assert registry.ask("GET", "/subjects").status == 401
        assert registry.ask("GET", "/subjects", Authorization="Basic YW5uYTpzZWNyZXQ=").status == 200
        assert registry.ask("GET", "/subjects", Authorization="Basic Ym9iOm90aGVy").status == 401


def refusal(broker: Server, *overrides: str) -> str:
    command = [sys.executable, "-m", "ottla.cli.main", "registry", "start", "--bootstrap-server", broker.bootstrap]
    for each in overrides:
        command += ["--override", each]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done
    return done.stderr


def test_what_keeps_an_instance_from_starting_is_said_in_a_line(broker: Server) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "topics", "--bootstrap-server", broker.bootstrap, "--create"]
    for name, more in (("deleted", ["--config", "cleanup.policy=delete"]), ("two", ["--partitions", "2"])):
        subprocess.run([*command, "--topic", name, *more], check=True, capture_output=True, timeout=100)
    listen = "listeners=http://127.0.0.1:0"
    assert "cleanup.policy=delete: schemas would be deleted" in refusal(broker, listen, "kafkastore.topic=deleted")
    assert "it has 2" in refusal(broker, listen, "kafkastore.topic=two")
    said = refusal(broker, f"listeners=http://127.0.0.1:{broker.port}")
    assert "cannot listen on" in said and "stop what listens there" in said
    assert "listeners" in refusal(broker, "listeners=gopher://x:1")
    assert "mode.mutability" in refusal(broker, "mode.mutability=perhaps")
    said = refusal(broker, listen, "kafkastore.bootstrap.servers=127.0.0.1:1")
    assert "no broker answers" in said
