"""`ottla registry` against a running one: looking, registering, checking, deleting, and moving everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.main import main
from tests.registry.running import RegistryProcess, record, running_registry
from tests.server import Server


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = main(["registry", *argv])
    found = capsys.readouterr()
    return code, found.out + found.err


def test_schemas_are_registered_shown_checked_and_deleted(
    registry: RegistryProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--url", registry.url)
    first, second = tmp_path / "first.avsc", tmp_path / "second.avsc"
    first.write_text(record("Shown"))
    second.write_text(record("Shown", "x"))
    code, schema_id = run(capsys, "register", "shown", str(first), *at)
    assert code == 0
    assert run(capsys, "versions", "shown", *at) == (0, f"1  {schema_id.strip()}  AVRO\n")
    assert '"name": "Shown"' in run(capsys, "show", "shown", *at)[1]
    assert '"name": "Shown"' in run(capsys, "show", "--id", schema_id.strip(), *at)[1]
    assert "shown" in run(capsys, "subjects", "-o", "name", *at)[1]
    assert run(capsys, "check", "shown", str(first), *at) == (0, "fits\n")
    assert run(capsys, "check", "shown", str(first), "--type", "avro", *at) == (0, "fits\n"), "in any case of letters"
    code, said = run(capsys, "check", "shown", str(second), *at)
    assert code == 1 and '+      "name": "x"' in said and "READER_FIELD_MISSING_DEFAULT_VALUE" in said
    code, said = run(capsys, "register", "shown", str(second), *at)
    assert code == 1 and "incompatible with an earlier schema" in said and "Traceback" not in said
    assert run(capsys, "delete", "shown", *at) == (0, "1\n")
    assert run(capsys, "delete", "shown", "--permanent", *at) == (0, "1\n")
    assert run(capsys, "show", "shown", *at)[0] == 1
    assert "no schema registry answers" in run(capsys, "subjects", "--url", "http://127.0.0.1:1")[1]


def test_everything_is_moved_with_its_ids_versions_and_settings(
    broker: Server, registry: RegistryProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register("moved-money", record("Money", "cents"))
    order = '{"type":"record","name":"Order","fields":[{"name":"price","type":"Money"}]}'
    registry.register("moved", order, references=[{"name": "Money", "subject": "moved-money", "version": 1}])
    registry.ask("PUT", "/config/moved", {"compatibility": "NONE"})
    registry.register("moved", record("Other"))
    registry.ask("DELETE", "/subjects/moved/versions/1")
    code, lines = run(capsys, "export", "--url", registry.url)
    assert code == 0
    file = tmp_path / "all.jsonl"
    file.write_text(lines)
    overrides = ["kafkastore.topic=_moved", "schema.registry.group.id=moved"]
    with running_registry(broker.bootstrap, overrides=overrides) as other:
        code, said = run(capsys, "import", str(file), "--url", other.url)
        assert code == 0, said
        again = run(capsys, "export", "--url", other.url)[1]
        assert [json.loads(each) for each in again.splitlines()] == [json.loads(each) for each in lines.splitlines()]
    assert run(capsys, "import", str(file), "--url", registry.url)[0] == 1
