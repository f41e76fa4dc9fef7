"""SIGINT while a command still imports its modules ends it, with the code of an interrupt and without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["ottla.base", "ottla.cli.kafka_names", "ottla.cli.options", "argparse", "ottla.cli.commands.topics"]
)
def test_an_interrupt_during_the_imports_shows_no_traceback(module: str) -> None:
    code = (
        "import os, runpy, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['ottla', 'topics', '--help']\n"
        "runpy.run_module('ottla.cli.main', run_name='__main__')\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode in (130, -signal.SIGINT), found
    assert not found.stdout and "Traceback" not in found.stderr


def test_an_import_of_the_command_leaves_interrupts_as_they_were() -> None:
    code = "import signal, ottla.cli.main; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True\n"
