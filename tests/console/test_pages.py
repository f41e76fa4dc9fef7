"""The pages in a real browser: each in both themes and on a phone, and the flows that a person walks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.connect.rest.worker import running_worker
from tests.console.running import RunningConsole, running_console
from tests.console.secured import console_with_logins, librdkafka, password, secured_server
from tests.console.visits import WCAG, Visit, needs_chromium, sideways
from tests.registry.running import running_registry
from tests.server import Server, running_server

HOSTILE = "<img src=x onerror=alert(1)>"
PAGES = (
    *("", "/topics", "/topics/orders/messages", "/topics/orders/partitions", "/topics/orders/groups"),
    *("/topics/orders/config", "/groups", "/brokers?broker=1", "/audit", "/topics/nothing/messages", "/nowhere"),
    *("/access", "/access/check", "/access/users", "/access/quotas", "/transactions", "/quorum", "/reassign"),
    *("/topics/orders/key?key=x", "/dlq", "/dlq/orders"),
    *("/connect", "/connect/files/lines", "/schemas", "/schemas/orders-value", "/sql", "/streams"),
    *("/lineage", "/cost", "/alerts", "/replays", "/topics/orders/lineage", "/topics/orders/cost"),
)
DIALOGS = (
    *("/topics?new=1", "/access?new=1", "/access/users?new=1", "/access/quotas?new=1", "/reassign?new=1"),
    *("/alerts?edit=*", "/alerts?edit=slow", "/replays?new=orders"),
    *("/connect?new=files", "/schemas?new=1", "/topics/orders/messages?record=0-1"),
)
QUICK = (
    "",
    "/topics/orders/messages",
    "/topics/orders/key",
    "/topics/orders/config",
    "/groups",
    "/access",
    "/connect/files/lines",
)
"""A page of each kind, for each change; `make test-console` opens all of them."""

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("broker")) as found:
        admin = AdminClient({"bootstrap.servers": found.bootstrap})
        for each in admin.create_topics([NewTopic("orders", 3)]).values():
            each.result()
        producer = Producer({"bootstrap.servers": found.bootstrap})
        for index in range(300):
            value = json.dumps({"id": index, "status": "FAILED" if index % 50 == 7 else "OK", "note": HOSTILE})
            producer.produce("orders", key=f"{HOSTILE}{index}", value=value, headers={HOSTILE: HOSTILE})
        producer.flush()
        yield found


@pytest.fixture(scope="module")
def console(server: Server) -> Iterator[RunningConsole]:
    """A console with everything beside its brokers that it has pages for."""
    with running_worker() as worker, running_registry(server.bootstrap) as registry:
        urls = f"files=http://127.0.0.1:{worker.port},away=http://127.0.0.1:1"
        options = ("--override", f"ottla.console.connect.urls={urls}", "--schema-registry", registry.url)
        with running_console(server.bootstrap, *options) as found:
            found.run("set-alert", name="slow", condition="lag() >= 0 AND written('orders') >= 0", targets=[])
            plugin = {"connector.class": "tests.Secretive", "fail": "1", "note": HOSTILE}
            found.run("configure-connector", cluster="files", name="lines", config=plugin)
            for fields in ([], [{"name": "note", "type": ["null", "string"], "default": None, "doc": HOSTILE}]):
                schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
                done = found.run("register-schema", subject="orders-value", schema=schema)
                assert done.body["outcome"] == "done", done
            yield found


@pytest.mark.parametrize(
    ("size", "theme"),
    [
        pytest.param("desk", "light", marks=pytest.mark.slow),  # all pages, make test-console
        pytest.param("desk", "dark", marks=pytest.mark.slow),
        pytest.param("tablet", "light", marks=pytest.mark.slow),
        pytest.param("phone", "dark", marks=pytest.mark.slow),
        ("quick", "light"),
    ],
)
def test_every_page_opens_in_every_size_and_theme(
    browser: Any, console: RunningConsole, size: str, theme: str, tmp_path: Path
) -> None:
    visit = Visit(browser, console, size="phone" if size == "quick" else size, theme=theme)
    for path in QUICK if size == "quick" else PAGES:
        page = visit.go(path)
        shot = f"{size}-{theme}-{path.strip('/').replace('/', '-').split('?')[0] or 'overview'}.png"
        page.screenshot(path=str(Path(os.environ.get("CONSOLE_PICTURES") or tmp_path) / shot))
        assert sideways(page) == [], path
        assert "undefined" not in page.inner_text("main") and "NaN" not in page.inner_text("main"), path
    visit.close()


@pytest.mark.parametrize(
    ("size", "theme"),
    [
        pytest.param("quick", "light", marks=pytest.mark.slow),  # 8 s; make test-console
        pytest.param("desk", "light", marks=pytest.mark.slow),  # all pages and dialogs
        pytest.param("desk", "dark", marks=pytest.mark.slow),
        pytest.param("phone", "light", marks=pytest.mark.slow),
        pytest.param("phone", "dark", marks=pytest.mark.slow),
    ],
)
def test_no_page_has_an_accessibility_fault_that_axe_finds(
    browser: Any, console: RunningConsole, size: str, theme: str
) -> None:
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
    given = {"size": "desk" if size == "quick" else size, "theme": theme}
    visit = Visit(browser, console, **given, bypass_csp=True)  # axe is evaluated, as no page may be
    found: list[str] = []
    for path in QUICK if size == "quick" else (*PAGES, *DIALOGS):
        page = visit.go(path)
        page.evaluate(axe)
        answer = page.evaluate(f"axe.run({{runOnly: {json.dumps(WCAG)}}})")
        assert answer["passes"]
        found += [f"{path or '/'}: {each['id']}: {each['nodes'][0]['html'][:120]}" for each in answer["violations"]]
    assert found == []
    visit.close()


@pytest.mark.slow  # seconds in the browser; make test-console
def test_hostile_records_are_shown_as_text(browser: Any, console: RunningConsole) -> None:
    visit = Visit(browser, console)
    page = visit.go("/topics/orders/messages")
    page.click("table.msgs tbody tr:first-child")
    page.wait_for_selector(".detail pre")
    for tab in ("Key", "Headers 1", "Decoder", "Value"):
        page.click(f".detail .tab:has-text('{tab}')")
    assert page.query_selector("main img") is None and HOSTILE in page.inner_text(".detail pre")
    visit.close()


def test_a_search_is_typed_found_and_is_a_link(browser: Any, console: RunningConsole) -> None:
    visit = Visit(browser, console)
    page = visit.go("/topics/orders/messages")
    page.keyboard.press("f")
    page.keyboard.type("value.status = 'FAILED'")
    page.keyboard.press("Enter")
    page.wait_for_selector(".said:has-text('6 hits')")
    assert page.locator("table.msgs tbody tr").count() == 6
    address = page.url
    assert "where=" in address
    page.goto(address)
    page.wait_for_selector(".said:has-text('6 hits')")
    page.keyboard.press("f")
    page.keyboard.press("End")
    page.keyboard.type(" AND")
    page.keyboard.press("Enter")
    page.wait_for_selector(".callout.bad:has-text('line 1:')")
    visit.close()


@pytest.mark.slow  # seconds in the browser; make test-console
def test_a_topic_is_made_written_to_and_deleted_by_keyboard_and_pointer(browser: Any, console: RunningConsole) -> None:
    visit = Visit(browser, console)
    page = visit.go("")
    page.keyboard.press("Control+k")
    page.wait_for_selector("dialog.palette input:focus")
    page.keyboard.type("create")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog input")
    page.keyboard.type("made-here")
    page.wait_for_selector("dialog .cli:has-text('made-here')")
    page.click("dialog footer .btn.go")
    page.wait_for_url("**/topics/made-here/messages")
    page.click("text=Produce…")
    page.fill("dialog textarea >> nth=0", '{"first": true}')
    page.click("dialog footer .btn.go")
    page.wait_for_selector("dialog footer :text('Written to partition')")
    page.keyboard.press("Escape")
    page.click("text=Search")
    page.wait_for_selector("table.msgs td:has-text('first')")
    page.click("text=Delete…")
    button = page.wait_for_selector("dialog footer .btn.danger")
    page.wait_for_selector("dialog label:has-text('made-here')")
    assert button.is_disabled()
    page.fill("dialog label input", "made-here")
    button.click()
    page.wait_for_url("**/topics")
    visit.close()


@pytest.mark.slow  # a broker with users of its own; make test-console
def test_one_logs_in_by_keyboard_sees_what_is_ones_own_and_logs_out(browser: Any, tmp_path: Path) -> None:
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
    with ExitStack() as running:
        server = running.enter_context(secured_server(tmp_path, tokens=True))
        asking = AdminClient(librdkafka(server, "root"))
        for each in asking.create_topics([NewTopic("apples", 1), NewTopic("pears", 1)]).values():
            each.result()
        console = running.enter_context(console_with_logins(server, tmp_path))
        page = browser.new_context(bypass_csp=True).new_page()
        page.goto(console.base + "/")
        page.wait_for_selector("form.login")
        page.evaluate(axe)
        assert page.evaluate("axe.run()")["violations"] == []
        page.keyboard.type("ann")
        page.keyboard.press("Tab")
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector(".callout.bad:has-text('no such user with this password')")
        page.fill("input[type=password]", password("ann"))
        page.keyboard.press("Enter")
        page.wait_for_selector(".side .me")
        page.goto(f"{console.base}/c/cluster/topics")
        page.wait_for_selector("td:has-text('apples')")
        assert "pears" not in page.content()
        page.goto(f"{console.base}/c/cluster/topics/apples/messages")
        delete = page.wait_for_selector("button:has-text('Delete…')")
        assert delete.is_disabled() and delete.get_attribute("title") == "needs DELETE on topic apples"
        page.goto(f"{console.base}/c/cluster/access")
        page.wait_for_selector(".callout.bad:has-text('Not allowed.')")
        page.click("text=Log out")
        page.wait_for_selector("form.login")


def test_without_the_link_nothing_is_shown(browser: Any, console: RunningConsole) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{console.base}/c/cluster/topics")
    page.wait_for_selector('h1:has-text("Open the console\'s link")')
    assert page.locator("body .side").count() == 0, "what stood in the page before is gone"
    assert "orders" not in page.content()
    context.close()


def test_the_committed_pages_are_small_and_ask_nobody_else() -> None:
    import gzip
    import re

    import ottla.console

    static = Path(ottla.console.__file__).parent / "static"
    files = [path for path in static.rglob("*") if path.suffix in (".js", ".css", ".html")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= 120 * 1024
    addresses = {found for path in files for found in re.findall(r"https?://[\w.-]+", path.read_text())}
    assert addresses <= {"http://www.w3.org"}
