"""`ottla doctor` about a registry: its topic, and an instance."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.registry.running import RegistryProcess
from tests.server import Server
from tests.waiting import until


def doctor(bootstrap: str, *more: str) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return what is wrong elsewhere, with the code, and what is said of the registry."""
    command = [sys.executable, "-m", "ottla.cli.main", "doctor", "-o", "json", "--bootstrap-server", bootstrap, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(done.stdout)
    failed = [each for each in found if each["status"] == "fail" and each["check"] != "registry"]
    return [done.returncode, *failed], [each for each in found if each["check"] == "registry"]


def configure(bootstrap: str, setting: str) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "configs", "--bootstrap-server", bootstrap, "--alter"]
    subprocess.run(
        [*command, "--topic", "_schemas", "--add-config", setting], check=True, timeout=120, capture_output=True
    )


def test_the_doctor_examines_the_topic_and_an_instance(broker: Server, registry: RegistryProcess) -> None:
    until(lambda: registry.ask("GET", "/health").body["primary_known"], registry.said)
    code, found = doctor(broker.bootstrap, "--registry", registry.url)
    assert code == [0], found
    assert [(each["status"], each["said"]) for each in found] == [
        ("ok", "_schemas is compacted, with 1 copy"),
        ("ok", f"{registry.url} is the primary"),
    ]
    configure(broker.bootstrap, "cleanup.policy=delete")
    code, found = doctor(broker.bootstrap, "--registry", "http://127.0.0.1:1")
    assert code == [1]
    assert [each["status"] for each in found] == ["fail", "fail"]
    assert "schemas will be deleted" in found[0]["said"] and "does not answer" in found[1]["said"]
    assert all(each["remedy"] for each in found)
    configure(broker.bootstrap, "cleanup.policy=compact")
    assert doctor(broker.bootstrap)[1][0]["status"] == "ok"
