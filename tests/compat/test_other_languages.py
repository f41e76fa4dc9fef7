"""kcat, kafkajs and franz-go write, read and describe with the broker as it is."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.compat import other_languages

pytestmark = pytest.mark.compat


def run(*command: str, stdin: str | None = None, folder: object = None) -> str:
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=90, check=False, input=stdin, cwd=str(folder or ".")
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_what_it_has_written(bootstrap: str, topic: str, codec: str) -> None:
    kcat = other_languages.kcat()
    lines = "".join(f"k{n}:value {n}\n" for n in range(100))
    run(kcat, "-b", bootstrap, "-P", "-t", topic, "-z", codec, "-K:", "-H", "trace=7", stdin=lines)
    found = run(kcat, "-b", bootstrap, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-f", "%k:%s|%h\n")
    assert sorted(found.splitlines()) == sorted(f"{line}|trace=7" for line in lines.splitlines())


def test_kcat_lists_the_cluster_and_seeks_by_time(bootstrap: str, topic: str) -> None:
    kcat = other_languages.kcat()
    run(kcat, "-b", bootstrap, "-P", "-t", topic, "-p", "0", stdin="a\nb\nc\n")
    described = json.loads(run(kcat, "-b", bootstrap, "-L", "-J", "-t", topic))
    assert [each["topic"] for each in described["topics"]] == [topic]
    assert bootstrap in [each["name"] for each in described["brokers"]]
    assert run(kcat, "-b", bootstrap, "-Q", "-t", f"{topic}:0:0").split() == [topic, "[0]", "offset", "0"]
    assert run(kcat, "-b", bootstrap, "-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q").split() == ["b", "c"]


@pytest.mark.slow
def test_franz_go_writes_with_every_codec_and_reads_it_back(bootstrap: str, topic: str) -> None:
    said = run(str(other_languages.build_franz_go()), bootstrap, topic, "round-trip")
    assert json.loads(said) == {"round-trip": {"read": 250, "headers": 250}}


@pytest.mark.slow
def test_kafkajs_writes_and_describes(bootstrap: str, topic: str) -> None:
    folder = other_languages.build_kafkajs()
    said = run("node", "member.js", bootstrap, topic, "round-trip", folder=folder)
    assert json.loads(said.splitlines()[-1]) == {"round-trip": {"brokers": 1, "end": 100, "later": 2}}
