"""`make install` and `make demo`: uv is told what pip is told, and hot modules are compiled beside a command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from packages import NotInstalled, found_uv, run, told_to_uv  # noqa: E402  a tool, which stands outside of packages

LISTED = """\
:env:.find-links='/opt/wheels /more'
freeze.timeout='10'
global.cert='/etc/ca.pem'
global.index-url='https://packages.example/simple'
global.quiet='1'
install.extra-index-url='https://a.example https://b.example'
"""
PROJECT = '[tool.ottla]\nhot-modules = [\n  "ottla.tiny",\n]\n'
TINY = '"""A module."""\n\n\ndef twice(number: int) -> int:\n    return number * 2\n'
ENDED_WHEN_KEPT = """
import pathlib, sys, time
import ottla.tiny
print(ottla.tiny.__file__.rpartition(".")[2])
until = time.monotonic() + 240
while sys.argv[1] and not list(pathlib.Path(sys.argv[1]).glob("ottla/hot/[0-9a-f]*/**/*.so")) and time.monotonic() < until:
    time.sleep(0.05)
sys.exit(7)
"""


def test_uv_is_told_what_pip_is_configured_with() -> None:
    assert told_to_uv(LISTED, {}) == {
        "UV_FIND_LINKS": "/opt/wheels,/more",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "UV_DEFAULT_INDEX": "https://packages.example/simple",
        "UV_INDEX": "https://a.example https://b.example",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_what_is_said_to_uv_itself_holds() -> None:
    assert "UV_DEFAULT_INDEX" not in told_to_uv(LISTED, {"UV_DEFAULT_INDEX": "https://mine.example/simple"})


def test_pip_installs_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_INSTALL_BY", "pip")
    assert found_uv(sys.executable, ["no-pip"]) is None


def test_uv_that_pip_cannot_have_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found_uv(str(tmp_path / "python"), ["/bin/false"]) is None


def test_what_a_tool_said_when_it_failed_is_told() -> None:
    with pytest.raises(NotInstalled, match="no such version"):
        run("Installing", [sys.executable, "-c", "print('no such version'); raise SystemExit(2)"], os.environ)


def checkout(folder: Path) -> Path:
    """Make a checkout of one hot module; returns the path of the tool in it."""
    (folder / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "compile_hot.py", folder / "tools")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "src" / "ottla").mkdir(parents=True)
    (folder / "src" / "ottla" / "__init__.py").touch()
    (folder / "src" / "ottla" / "tiny.py").write_text(TINY)
    return folder / "tools" / "compile_hot.py"


def compiled_beside(tool: Path, cache: Path, waits: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in {"OTTLA_PURE", "KEEP"}} | environment
    env |= {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(tool.parents[1] / "src")}
    command = [sys.executable, str(tool), "--beside", sys.executable, "-c", ENDED_WHEN_KEPT, waits]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=tool.parent)


needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None and shutil.which("cc") is None, reason="no C compiler")


@needs_compiler
def test_a_command_runs_pure_while_hot_modules_are_compiled_and_the_next_one_runs_them(tmp_path: Path) -> None:
    tool, cache = checkout(tmp_path / "checkout"), tmp_path / "cache"
    first = compiled_beside(tool, cache, str(cache))
    assert first.returncode == 7, first.stderr
    assert "Pure Python for now" in first.stdout and "\npy\n" in first.stdout
    again = compiled_beside(tool, cache, "")
    assert "\nso\n" in "\n" + again.stdout and "Pure" not in again.stdout and again.returncode == 7
    clone = compiled_beside(checkout(tmp_path / "clone"), cache, "")
    assert "Pure" not in clone.stdout and "so\n" in clone.stdout, "what one checkout built serves the next"


@needs_compiler
def test_nothing_is_put_beside_a_broker_that_is_left_running(tmp_path: Path) -> None:
    tool, cache = checkout(tmp_path / "checkout"), tmp_path / "cache"
    compiled_beside(tool, cache, str(cache), KEEP="1")
    assert not list((tool.parents[1] / "src").rglob("*.so"))


def test_an_older_python_is_told_which_one_is_needed() -> None:
    ask = "import runpy, sys; sys.version_info = (3, 10, 4); runpy.run_path('setup.py')"
    found = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 1 and found.stderr == "Ottla needs Python 3.11 or later, and this is 3.10\n"
