"""The pages of Streams over a service and an application that run: what is shown, planned, run, taken back and refused."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.streams_serve import Applications
from ottla.client import BlockingClient
from ottla.spark import StreamsApplication
from ottla.spark.continuous.jobs import ThreadHostJobs
from ottla.spark.continuous.web import ServiceServer
from ottla.spark.streams.web_door import Door
from ottla.streams import StreamsBuilder
from tests.console.running import RunningConsole, running_console
from tests.console.visits import WCAG, Visit, needs_chromium, sideways
from tests.server import running_server
from tests.streams.continuous.worlds import World
from tests.waiting import until

COUNTING = """
from ottla.streams import StreamsBuilder
builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
words = builder.stream("{topic}").group_by(lambda key, word: word)
words.count(materialized="counts").to_stream().to("{topic}-out", key_serde="string", value_serde="long")
"""
MASKED = '[{"topics": "secret-*", "path": "value"}]'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    quickly = ("group.initial.rebalance.delay.ms=0",)
    with (
        running_server(tmp_path_factory.mktemp("broker"), overrides=quickly) as server,
        BlockingClient(server.bootstrap) as client,
    ):
        made = World("lines", client, tmp_path_factory.mktemp("world"))
        yield made
        made.close()


@pytest.fixture(scope="module")
def console(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """A console over a service of a folder's applications, an application by itself, and an address that is none."""
    folder = tmp_path_factory.mktemp("apps")
    for name in ("words", "secret"):
        (folder / f"{name}.py").write_text(COUNTING.format(topic=world.name))
    settings = world.settings()
    common = folder / "common.properties"
    kept = {key: value for key, value in settings.items() if key not in ("application.id", "bootstrap.servers")}
    common.write_text("".join(f"{key}={value}\n" for key, value in kept.items()))
    given = {"places": [str(folder)], "property": [], "properties": str(common)}
    args = Namespace(**given, bootstrap_server=settings["bootstrap.servers"])
    catalogue = Applications(args, ship=lambda module: None)
    server = ServiceServer(world.service(ThreadHostJobs()), catalogue, Door("127.0.0.1", 0, None, None))
    builder = StreamsBuilder(default_key_serde="string", default_value_serde="string")
    builder.stream(world.name).map_values(lambda line: line.upper()).to(world.out)
    alone = StreamsApplication(
        builder.build(),
        {**settings, "application.id": "alone", "http.listener": "127.0.0.1:0", "execution": "continuous"},
        jobs=ThreadHostJobs(),
    )
    masks = folder / "masks.json"
    masks.write_text(MASKED)
    try:
        with alone:
            urls = f"many={server.url},alone={alone.http_url},gone=http://user:hush@127.0.0.1:1"
            options = ("--override", f"ottla.console.streams.urls={urls}")
            more = ("--override", f"ottla.console.masks.file={masks}")
            with running_console(settings["bootstrap.servers"], *options, *more) as found:
                yield found
    finally:
        server.close()


def test_an_application_is_begun_looked_into_paused_and_ended_by_plans(console: RunningConsole, world: World) -> None:
    many, alone, gone = console.get("/streams")["items"]
    assert (many["kind"], many["available"], many["applications"]) == ("service", ["secret", "words"], [])
    assert (alone["kind"], [each["name"] for each in alone["applications"]]) == ("application", ["alone"])
    assert "no Streams service answers" in gone["error"] and "hush" not in json.dumps(gone)
    begun = console.run("streams-state", service="many", name="words", to="started")
    assert begun.body["outcome"] == "done", begun
    world.feed("ape", "bee", "ape")

    def entries(query: str = "") -> object:
        answer = console.ask("GET", f"/api/c/cluster/streams/many/words/stores/counts{query}")
        return {each["key"]: each["value"] for each in answer.body["entries"]} if answer.status == 200 else answer

    until(lambda: entries() == {"ape": 2, "bee": 1}, entries)
    assert entries("?key=bee") == {"bee": 1} and entries("?key=nobody") == {}
    found = console.get("/streams/many/words")
    assert (found["state"], found["execution"], found["kind"]) == ("RUNNING", "continuous", "service")
    assert "Sub-topology: 0" in found["topology"] and [each["name"] for each in found["stores"]] == ["counts"]
    assert {each["task"] for part in found["parts"] for each in part["works"]} >= {"0_0", "1_0"}
    paused = console.run("streams-state", service="many", name="words", to="paused")
    assert paused.body["undo"] and console.get("/streams/many/words")["paused"] is True
    plan = console.post(f"/audit/{paused.body['id']}/undo", {}).body
    assert console.post(f"/plans/{plan['id']}/run", {"hash": plan["hash"], "typed": None}).status == 200
    assert console.get("/streams/many/words")["paused"] is False
    assert console.run("streams-state", service="many", name="words", to="ended").body["outcome"] == "done"
    assert console.ask("GET", "/api/c/cluster/streams/many/words").status == 404


def test_what_cannot_be_is_refused_in_words(console: RunningConsole) -> None:
    for arguments, words in (
        ({"service": "none", "name": "words", "to": "paused"}, "There is no Streams service called none"),
        ({"service": "many", "name": "nobody", "to": "paused"}, "does not run there"),
        ({"service": "many", "name": "words", "to": "gone"}, "to is one of"),
    ):
        refused = console.post("/plans", {"action": "streams-state", "arguments": arguments})
        assert refused.status == 400 and words in refused.body["message"], refused
    same = console.post("/plans", {"action": "promote-streams", "arguments": {"service": "alone", "to": "continuous"}})
    assert same.status == 422 and "already" in same.body["message"]
    assert console.ask("GET", "/api/c/cluster/streams/alone/somebody").status == 404
    assert console.get("/streams/alone/alone")["kind"] == "application"
    assert console.ask("GET", "/api/c/cluster/streams/none/words").status == 404


def test_a_store_whose_changelog_is_masked_is_not_shown(console: RunningConsole) -> None:
    console.run("streams-state", service="many", name="secret", to="started")
    answer = console.ask("GET", "/api/c/cluster/streams/many/secret/stores/counts")
    assert answer.status == 403 and "secret-counts-changelog is masked" in answer.body["message"]
    console.run("streams-state", service="many", name="secret", to="ended")


@pytest.mark.slow  # Chromium and its start; make test-console
@needs_chromium
@pytest.mark.parametrize(("size", "theme"), [("desk", "light"), ("tablet", "dark"), ("phone", "light")])
def test_the_pages_have_no_fault_that_axe_finds(browser: Any, console: RunningConsole, size: str, theme: str) -> None:
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
    if console.ask("GET", "/api/c/cluster/streams/many/words").status == 404:
        console.run("streams-state", service="many", name="words", to="started")
    visit = Visit(browser, console, size=size, theme=theme, bypass_csp=True)
    for path in ("/streams", "/streams/alone/alone", "/streams/many/words"):
        page = visit.go(path)
        assert sideways(page) == [], path
        page.evaluate(axe)
        answer = page.evaluate(f"axe.run({{runOnly: {json.dumps(WCAG)}}})")
        assert [(path, each["id"], each["nodes"][0]["html"][:120]) for each in answer["violations"]] == []
    page.click("button:has-text('Look')")
    page.wait_for_selector("table[aria-label='Entries of counts'], .empty, [role=alert]")
    visit.close()
