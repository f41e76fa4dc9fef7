"""Install the pinned packages into .venv: by uv where it can be had, else by pip; the same versions either way.

`demo` installs what `make demo` needs, `all` every extra and what the tests need. uv is the one on the path, or comes
into .venv by pip. It is told what pip is configured with (an index of one's own, a folder of wheels, certificates). What
a cache has is installed without asking the network.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS_BETWEEN_LINES = 10.0
LOOK_SECONDS = 0.1
ENDING_SHOWN = 6000
GROUPS = {"demo": [".[spark]", "mypy", "setuptools"], "all": [".[all,dev]"]}
"""What a group installs: Ottla itself with extras, editable, and what else; mypy and setuptools compile the hot modules."""
STORED = "--build-option=--compression=stored"
"""PySpark comes as sources only, and its wheel is for this one installation: packing 490 MB twice took half of all time."""
TOLD = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", None),
    "client-cert": ("SSL_CLIENT_CERT", None),
    "timeout": ("UV_HTTP_TIMEOUT", None),
    "default-timeout": ("UV_HTTP_TIMEOUT", None),
    "proxy": ("ALL_PROXY", None),
    "no-index": ("UV_NO_INDEX", None),
}
"""pip's settings, the variable that says the same to uv, and what stands between the several values of one."""


class NotInstalled(Exception):
    """A tool failed; its text is what the tool said."""


def told_to_uv(listed: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that say to uv what `pip config list` says, but for those that are set already."""
    told: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, quoted = line.partition("=")
        setting = name.rpartition(".")[2]
        if setting not in TOLD or name.partition(".")[0] not in {":env:", "global", "install"}:
            continue
        variable, between = TOLD[setting]
        value = str(ast.literal_eval(quoted))
        if value and variable not in environment:
            told[variable] = value if between is None else between.join(value.split())
    if "UV_INDEX" in told:
        told["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip looks: at all indexes, for the version that is pinned
    return told


def run(what: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command; on a terminal it shows its own progress, else a line every ten seconds. Raises NotInstalled."""
    if sys.stdout.isatty():
        print(what, flush=True)
        if code := subprocess.run(command, cwd=ROOT, env=environment).returncode:
            raise NotInstalled(f"{command[0]} ended with {code}")
        return
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT)
        started = shown = time.monotonic()
        while process.poll() is None:
            time.sleep(LOOK_SECONDS)
            if time.monotonic() - shown >= SECONDS_BETWEEN_LINES:
                shown = time.monotonic()
                print(f"{what}: {shown - started:.0f} s, {last_line(said.fileno()) or 'begun'}", flush=True)
        if process.returncode:
            said.seek(0)
            raise NotInstalled(said.read()[-ENDING_SHOWN:])


def last_line(file: int) -> str:
    """Return the last line of a file that another process writes."""
    size = os.fstat(file).st_size
    lines = os.pread(file, 2048, max(0, size - 2048)).decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:100]


def found_uv(python: str, pip: Sequence[str]) -> str | None:
    """Return uv's path: on the path, in .venv, or put there by pip; None where it cannot be had."""
    beside = Path(python).with_name("uv")
    if os.environ.get("OTTLA_INSTALL_BY") == "pip":
        return None
    if (found := shutil.which("uv")) is not None:
        return found
    if not beside.exists():
        done = subprocess.run(
            [*pip, "install", "--quiet", "-c", "constraints.txt", "uv"], cwd=ROOT, capture_output=True
        )
        if done.returncode or not beside.exists():
            return None
    return str(beside)


def by_uv(uv: str, python: str, group: str, pip: Sequence[str]) -> None:
    """Install a group by uv: without the network where its cache has all, else with it. Raises NotInstalled."""
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    environment = {**os.environ, **told_to_uv(listed, os.environ)}
    command = [uv, "pip", "install", "--no-config", "--python", python, "-c", "constraints.txt"]
    command += ["--config-settings-package", f"pyspark:{STORED}"]
    command += ["-e", *GROUPS[group]]
    if subprocess.run([*command, "--offline", "--quiet"], cwd=ROOT, env=environment, capture_output=True).returncode:
        run("Installing the pinned packages", command, environment)


def by_pip(python: str, group: str, pip: Sequence[str]) -> None:
    """Install a group by pip. Raises NotInstalled."""
    command = [*pip, "install", "--quiet", "--progress-bar", "on", "-c", "constraints.txt", "-e", *GROUPS[group]]
    run("Installing the pinned packages by pip, which takes a few minutes", command, os.environ)


def main(arguments: Sequence[str]) -> int:
    """Install a group into the environment of a Python; returns the exit code."""
    python, group = arguments
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    started = time.monotonic()
    print(f"Installing the pinned packages ({group}); the largest is PySpark, of 450 MB", flush=True)
    uv = found_uv(python, pip)
    try:
        if uv is not None:
            try:
                by_uv(uv, python, group, pip)
            except NotInstalled as error:
                print(f"uv could not install them, so pip does: {error}", flush=True)
                uv = None
        if uv is None:
            by_pip(python, group, pip)
    except NotInstalled as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Installed by {'pip' if uv is None else 'uv'} in {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
