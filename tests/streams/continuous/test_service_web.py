"""A service over HTTP: what may be added, who may ask, and what a request changes."""

from __future__ import annotations

import http.client
import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base import ConfigError
from ottla.cli.options import UsageError
from ottla.cli.streams_serve import Applications
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.spark.continuous.web import ServiceServer
from ottla.spark.streams.web_door import Door, door_of
from ottla.streams import StreamsSettings
from tests.streams.continuous.worlds import World
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)
LOUD = """
from ottla.streams import StreamsBuilder
builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
builder.stream("{topic}").map_values(lambda line: line.upper()).to("{topic}-out")
"""


def applications(world: World, folder: Path, *places: Path, **more: Any) -> Applications:
    """Return a catalogue of files, whose functions travel within this process."""
    common = folder / "common.properties"
    given = {
        key: value for key, value in world.settings().items() if key not in ("application.id", "bootstrap.servers")
    }
    common.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    args = {"places": [str(each) for each in places], "property": [], "properties": str(common)}
    bootstrap = world.settings()["bootstrap.servers"]
    return Applications(Namespace(**{**args, "bootstrap_server": bootstrap, **more}), ship=lambda module: None)


@pytest.fixture
def apps(world: World, tmp_path: Path) -> Path:
    folder = tmp_path / "apps"
    folder.mkdir()
    (folder / "loud.py").write_text(LOUD.format(topic=world.name))
    (folder / "none.py").write_text("x = 1\n")
    (folder / "_hidden.py").write_text("x = 1\n")
    return folder


@pytest.fixture
def server(world: World, apps: Path, tmp_path: Path) -> Iterator[ServiceServer]:
    service = world.service(ThreadHostJobs())
    made = ServiceServer(service, applications(world, tmp_path, apps), Door("127.0.0.1", 0, None, None))
    yield made
    made.close()


def ask(server: ServiceServer, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    given = {"Content-Type": "application/json"} if body is not None else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, None if body is None else json.dumps(body), given | named)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, json.loads(text) if text.startswith("{") else text


def test_applications_are_added_by_name_paused_resumed_looked_into_and_ended(
    server: ServiceServer, world: World
) -> None:
    status, found = ask(server, "GET", "/applications")
    assert (status, found) == (200, {"applications": [], "available": ["loud", "none"]})
    status, found = ask(server, "POST", "/applications", {"name": "loud"})
    assert status == 201 and found["application_id"] == "loud"
    world.feed("a")
    until(lambda: [each.value for each in world.read(world.out)] == [b"A"], "the first result")
    assert ask(server, "POST", "/applications", {"name": "loud"})[0] == 409
    for key in ("settings", "state.dir", "http.listener", "bootstrap.servers"):
        status, found = ask(server, "POST", "/applications", {"name": "loud", key: "x"})
        assert status == 400 and key in str(found)
    assert ask(server, "PUT", "/applications/loud/pause")[1]["paused"]
    world.feed("b")
    assert not ask(server, "PUT", "/applications/loud/resume")[1]["paused"]
    until(lambda: {each.value for each in world.read(world.out)} == {b"A", b"B"}, "the second result")
    assert "Sub-topology: 0" in ask(server, "GET", "/applications/loud/topology")[1]
    assert ask(server, "GET", "/applications/loud")[1]["execution"] == "continuous"
    assert 'ottla_streams_state{application_id="loud",state="RUNNING"} 1' in ask(server, "GET", "/metrics")[1]
    assert ask(server, "GET", "/health")[0] == 200 and len(ask(server, "GET", "/")[1]["hosts"]) == 1
    status, found = ask(server, "DELETE", "/applications/loud")
    assert status == 200 and found["in_time"]
    assert ask(server, "GET", "/applications/loud")[0] == 404
    assert ask(server, "POST", "/applications", {"name": "loud"})[0] == 201


@pytest.mark.parametrize("name", ["../loud", "/etc/passwd", "loud.py", "_hidden", "nobody", ""])
def test_what_does_not_lie_there_is_not_added(server: ServiceServer, name: str) -> None:
    status, found = ask(server, "POST", "/applications", {"name": name})
    assert status in (400, 404) and "Traceback" not in found["message"]


def test_a_file_that_is_no_application_is_refused_in_words(server: ServiceServer, apps: Path) -> None:
    status, found = ask(server, "POST", "/applications", {"name": "none"})
    assert status == 422 and "is expected, and it has nothing of them" in found["message"]
    (apps / "broken.py").write_text("def (:\n")
    status, found = ask(server, "POST", "/applications", {"name": "broken"})
    assert status == 422 and found["message"].startswith("broken: SyntaxError")


def test_a_page_in_a_browser_cannot_steer_a_service(server: ServiceServer) -> None:
    body = {"name": "loud"}
    assert ask(server, "POST", "/applications", body, Content_Type="text/plain")[0] == 415
    assert ask(server, "POST", "/applications", body, Content_Type="application/x-www-form-urlencoded")[0] == 415
    assert ask(server, "GET", "/applications", Host="evil.example:80")[0] == 421
    assert ask(server, "GET", "/applications", Host=f"localhost:{server.port}")[0] == 200
    assert ask(server, "POST", "/applications", body, Origin="http://evil.example")[0] == 403


def test_an_address_that_others_reach_needs_https_and_logins(tmp_path: Path) -> None:
    logins = tmp_path / "logins"
    logins.write_text("alice=secret\n")

    def door(listener: str, **more: str) -> Door:
        named = {"application.id": "a", "bootstrap.servers": "localhost:9092", "http.listener": listener}
        return door_of(StreamsSettings.of({**named, **more}))

    with pytest.raises(ConfigError, match=r"with http\.listener\.logins\.file alone"):
        ServiceServer(None, None, door("0.0.0.0:0"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="has code run by name"):
        ServiceServer(None, None, door("0.0.0.0:0", **{"http.listener.logins.file": str(logins)}))  # type: ignore[arg-type]


def test_settings_of_all_lie_under_a_files_own_and_those_beside_it_over_them(world: World, tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(LOUD.format(topic="t") + 'settings = {"client.id": "file", "commit.interval.ms": 7}\n')
    (tmp_path / "one.properties").write_text("client.id=beside\napplication.id=its-own\n")
    found = applications(world, tmp_path, file, property=["num.stream.threads=3"])
    _, settings = found.load("one")
    assert (settings["client.id"], settings.application_id) == ("beside", "its-own")
    assert (settings.commit_interval_ms, settings["num.stream.threads"]) == (7, 3)
    assert found.chosen(None) == ["one"] and found.chosen("none") == []
    with pytest.raises(UsageError, match="two"):
        found.chosen("one,two")
    with pytest.raises(UsageError, match="does not exist"):
        applications(world, tmp_path, tmp_path / "nowhere")
