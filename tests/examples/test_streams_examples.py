"""The examples of docs/streams-examples.md do what they say, without a broker; this is also how to test an application."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.cli.commands import demo, word_count
from ottla.cli.streams_app import load
from ottla.spark import TopologyTestDriver, ship_module
from ottla.streams import StreamsSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples" / "streams").glob("*.py"))
LINES_MAX = 48
"""Forty lines and what says what they are for."""
SETTINGS = {"application.id": "test", "bootstrap.servers": "test:9092"}
Run = Callable[[str], TopologyTestDriver]


@pytest.fixture
def run(spark: SparkSession) -> Iterator[Run]:
    """Run an example by its name, as `ottla streams run` finds it."""
    opened: list[TopologyTestDriver] = []

    def of(name: str) -> TopologyTestDriver:
        loaded = load(str(ROOT / "examples" / "streams" / f"{name}.py"))
        settings = StreamsSettings.of({**SETTINGS, **loaded.settings})
        ship_module(loaded.module, settings)
        opened.append(TopologyTestDriver(loaded.topology(settings), loaded.settings, spark=spark))
        return opened[-1]

    yield of
    for driver in opened:
        driver.close()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_streams_example_is_one_short_file_that_its_page_shows(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= LINES_MAX
    page = (ROOT / "docs" / "streams-examples.md").read_text()
    blocks = re.findall(rf"examples/streams/{example.name}\).*?^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks == [example.read_text()]


@pytest.mark.spark
def test_the_tests_of_the_page_about_testing_pass(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "streams"))
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "streams-testing.md").read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile("\n".join(blocks), "streams-testing.md", "exec", dont_inherit=True), found)
    found["test_a_balance_is_the_sum_of_an_accounts_transactions"](spark)
    found["test_a_balance_in_milliseconds"]()


@pytest.mark.spark
def test_the_word_count_counts_words(run: Run) -> None:
    driver = run("word_count")
    lines = driver.create_input_topic("streams-plaintext-input")
    counts = driver.create_output_topic("streams-wordcount-output", value_serde="long")
    lines.pipe_value_list(["all streams", "lead to Kafka!", ""])
    assert counts.read_key_values_to_map() == {"all": 1, "streams": 1, "lead": 1, "to": 1, "kafka": 1}
    lines.pipe_input("Hello Kafka, hello streams")
    assert counts.read_key_values_to_map() == {"hello": 2, "kafka": 2, "streams": 2}
    assert driver.get_key_value_store("counts").get("kafka") == 2


@pytest.mark.spark
def test_the_demo_s_words_are_those_that_plain_python_counts(spark: SparkSession) -> None:
    text = Path(re.__file__).read_text().splitlines()
    with TopologyTestDriver(word_count.topology("text", "words"), spark=spark) as driver:
        driver.create_input_topic("text").pipe_value_list(text)
        counted = driver.create_output_topic("words", value_serde="long").read_key_values_to_map()
    assert counted == Counter(word for line in text for word in demo.WORD.findall(line.lower()))


@pytest.mark.spark
def test_a_balance_is_the_sum_of_an_accounts_transactions(run: Run) -> None:
    driver = run("bank_balance")
    transactions = driver.create_input_topic("transactions", value_serde="json")
    balances = driver.create_output_topic("balances", value_serde="long")
    transactions.pipe_key_value_list([("ann", {"cents": 10_000}), ("bob", {"cents": 500}), ("ann", {"cents": -2_550})])
    assert balances.read_key_values_to_map() == {"ann": 7_450, "bob": 500}
    transactions.pipe_input("bob", {"cents": 1, "text": "interest"})
    assert balances.read_key_values_to_map() == {"bob": 501}


@pytest.mark.spark
def test_a_users_latest_address_replaces_the_one_before_and_is_counted_once(run: Run) -> None:
    driver = run("latest_email")
    emails = driver.create_input_topic("user-emails")
    emails.pipe_key_value_list([("ann", "ann@old.example"), ("bob", "bob@old.example"), ("eve", "eve@new.example")])
    providers = driver.create_output_topic("providers", value_serde="long")
    assert providers.read_key_values_to_map() == {"old.example": 2, "new.example": 1}
    emails.pipe_key_value_list([("ann", "ann@new.example"), ("eve", None)])
    latest = driver.create_output_topic("latest-emails")
    assert latest.read_key_values_to_map() == {"ann": "ann@new.example", "bob": "bob@old.example", "eve": None}
    assert providers.read_key_values_to_map() == {"old.example": 1, "new.example": 1}
    assert dict(driver.get_key_value_store("email-by-user").all()) == {
        "ann": "ann@new.example",
        "bob": "bob@old.example",
    }


@pytest.mark.spark
def test_a_late_view_counts_in_its_own_minute_until_grace_is_over(run: Run) -> None:
    driver = run("page_views")
    views = driver.create_input_topic("page-views")
    counted = driver.create_output_topic("views-per-minute", value_serde="long")
    views.pipe_input("home", "ann", timestamp=10_000)
    views.pipe_input("home", "bob", timestamp=59_999)
    views.pipe_input("home", "eve", timestamp=60_000)
    assert counted.read_key_values_to_map() == {"home at minute 0": 2, "home at minute 1": 1}
    views.pipe_input("home", "joe", timestamp=59_000)  # late: the clock stands at 60 s
    assert counted.read_key_values_to_map() == {"home at minute 0": 3}
    views.pipe_input("home", "ann", timestamp=90_000)  # the first minute's grace ends
    views.pipe_input("home", "sue", timestamp=59_500)  # too late
    assert counted.read_key_values_to_map() == {"home at minute 1": 2}


@pytest.mark.spark
def test_three_failed_log_ins_within_a_minute_raise_one_alarm(run: Run) -> None:
    driver = run("failed_logins")
    logins = driver.create_input_topic("logins", value_serde="json")
    attempts = [
        ("ann", False, 0),
        ("ann", False, 20_000),
        ("bob", False, 21_000),
        ("bob", False, 22_000),
        ("bob", True, 23_000),  # one that succeeds begins anew
        ("bob", False, 24_000),
        ("ann", False, 61_000),  # the first of ann's is forgotten by now
        ("ann", False, 62_000),
    ]
    for user, ok, at_ms in attempts:
        logins.pipe_input(user, {"ok": ok, "address": f"10.0.0.{at_ms // 1000}"}, timestamp=at_ms)
    alarms = driver.create_output_topic("alarms")
    assert alarms.read_key_values_to_list() == [("ann", "3 failures, the last from 10.0.0.62")]
    assert driver.get_key_value_store("failures").get("bob") == [24_000]
    logins.pipe_input("joe", {"ok": True, "address": "10.0.0.9"}, timestamp=700_000)
    assert alarms.is_empty
    assert driver.get_key_value_store("failures").get("bob") is None


@pytest.mark.spark
def test_log_lines_are_counted_by_level_and_errors_come_out_by_service(run: Run) -> None:
    driver = run("log_levels")
    driver.create_input_topic("log-lines").pipe_value_list(
        [
            "2026-11-22T05:00:00 INFO shop: order 1",
            "2026-11-22T05:00:01 ERROR payments: card refused: 51",
            "2026-11-22T05:00:02 INFO shop: order 2",
            "no level in this line",
        ]
    )
    levels = driver.create_output_topic("log-levels", value_serde="long")
    assert levels.read_key_values_to_map() == {"INFO": 2, "ERROR": 1}
    errors = driver.create_output_topic("errors")
    assert errors.read_key_values_to_list() == [("payments", "card refused: 51")]


@pytest.mark.spark
def test_edits_by_people_add_up_by_article_and_by_session(run: Run) -> None:
    driver = run("wikipedia_edits")
    edits = driver.create_input_topic("edits", value_serde="json")

    def edit(at_s: int, title: str, user: str, old: int, new: int, *, bot: bool = False) -> None:
        event = {"title": title, "user": user, "bot": bot, "length_old": old, "length_new": new, "wiki": "enwiki"}
        edits.pipe_input(None, event, timestamp=at_s * 1000)

    edit(0, "Log", "Ann", 100, 120)
    edit(60, "Log", "Tidy", 120, 110, bot=True)
    edit(120, "Log", "Ann", 110, 105)
    edit(1000, "River", "Ann", 0, 50)
    articles = driver.create_output_topic("articles", value_serde="json")
    assert articles.read_key_values_to_map() == {
        "Log": {"edits": 2, "bytes_changed": 15, "last_user": "Ann"},
        "River": {"edits": 1, "bytes_changed": 50, "last_user": "Ann"},
    }
    sessions = driver.create_output_topic("editing-sessions").read_values_to_list()
    assert {"2 edits in 120 s", "1 edits in 0 s"} == set(sessions[-2:])


@pytest.mark.spark
def test_a_model_scores_payments_in_whole_columns(run: Run) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    driver = run("score_payments")
    payments = driver.create_input_topic("payments", value_serde="json")
    payments.pipe_input("ann", {"amount": 12.5, "abroad": False})
    payments.pipe_input("bob", {"amount": 1_900, "abroad": True})
    scored = driver.create_output_topic("scored-payments", value_serde="json").read_key_values_to_map()
    assert scored["ann"]["risk"] < 0.5 < scored["bob"]["risk"]
    suspicious = driver.create_output_topic("suspicious-payments", value_serde="json")
    assert suspicious.read_key_values_to_map() == {"bob": scored["bob"]}


def test_without_scikit_learn_the_example_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(SystemExit, match="pip install scikit-learn"):
        load(str(ROOT / "examples" / "streams" / "score_payments.py"))


@pytest.mark.spark
def test_history_keeps_every_change_and_latest_the_last(run: Run) -> None:
    driver = run("history_and_latest")
    changes = driver.create_input_topic("price-changes", value_serde="double")
    prices: list[tuple[str, Any]] = [("tea", 2.5), ("jam", 4.0), ("tea", 2.75), ("jam", None)]
    changes.pipe_key_value_list(prices)
    history = driver.create_output_topic("price-history", value_serde="double")
    assert sorted(history.read_key_values_to_list(), key=str) == sorted(prices, key=str)
    latest = driver.create_output_topic("price-latest", value_serde="double").read_key_values_to_map()
    assert latest["tea"] == 2.75 and latest.get("jam") is None
    assert dict(driver.get_key_value_store("prices").all()) == {"tea": 2.75}
