"""What `ottla server start` prints and logs, and what it serves over HTTP."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ottla.cli.local.log_format import JsonFormatter, TextFormatter
from tests.server import running_server


def event(**more: object) -> logging.LogRecord:
    return logging.LogRecord("ottla.x", logging.WARNING, "file", 1, "first\nsecond %s", ("café",), None, **more)  # type: ignore[arg-type]


def failed() -> logging.LogRecord:
    try:
        raise ValueError("no\nmore")
    except ValueError:
        return logging.LogRecord("ottla.x", logging.ERROR, "file", 1, "it failed", (), sys.exc_info())


@pytest.mark.parametrize("record", [event(), failed()])
def test_an_event_is_one_line(record: logging.LogRecord) -> None:
    for formatter in (TextFormatter(), JsonFormatter()):
        assert "\n" not in formatter.format(record)


def test_json_says_when_how_grave_where_and_what() -> None:
    told = json.loads(JsonFormatter().format(event()))
    assert told["time"].endswith("Z") and told["time"][10] == "T"
    assert (told["level"], told["logger"], told["message"]) == ("WARNING", "ottla.x", "first\nsecond café")
    assert "ValueError" in json.loads(JsonFormatter().format(failed()))["stack"]


def test_a_server_says_where_its_metrics_and_health_are(tmp_path: Path) -> None:
    with running_server(tmp_path, overrides=["ottla.http.listeners=http://127.0.0.1:0"]) as server:
        line = next(each for each in server.lines if each.startswith("metrics "))
        url = line.split()[1].removesuffix("/metrics,")
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:
            assert json.load(answer)["status"] == "ok"
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            assert b"kafka_controller_kafkacontroller_activecontrollercount 1\n" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/none", timeout=10)
        assert json.load(caught.value)["error_code"] == 404


def test_without_the_key_nothing_of_http_is_even_imported() -> None:
    code = "import ottla.broker, ottla.cli.commands.server, sys; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
