"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark import Java, find_java, java, java_missing


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "INSTALLED_UNDER", tmp_path / "jvm")


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "21.0.1"), fake_java(tmp_path / "other", "17.0.15")
    environ = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(environ) == Java(home, 21)
    assert find_java({"PATH": str(other / "bin")}) == Java(other, 17)
    assert java_missing(environ) is None


def test_a_version_is_read_where_it_stands_and_no_java_is_started_for_it(tmp_path: Path) -> None:
    whole, part = fake_java(tmp_path / "whole", "11.0.2"), fake_java(tmp_path / "part", "11.0.2")
    for home in (whole, part):
        (home / "release").write_text('IMPLEMENTOR="Somebody"\nJAVA_VERSION="21.0.4"\n')
    (part / "bin" / "java").unlink()
    assert find_java({"JAVA_HOME": str(whole), "PATH": ""}) == Java(whole, 21)
    assert find_java({"JAVA_HOME": str(part), "PATH": ""}) is None


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "old", "1.8.0_412"), fake_java(tmp_path / "jvm" / "new", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": ""}) == Java(new, 17)


def test_a_java_home_without_a_java_is_named_and_not_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "jvm" / "new", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""}
    assert find_java(environ) is None
    assert f"JAVA_HOME is {tmp_path / 'nowhere'}, where no Java is" in (java_missing(environ) or "")


def test_without_a_java_one_line_says_what_to_install(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    assert find_java({"PATH": ""}) is None
    text = java_missing({"JAVA_HOME": str(old), "PATH": ""})
    assert text is not None
    assert "openjdk-17-jre-headless" in text
    assert "11 in " in text
    assert "\n" not in text
