"""Cases in a process of their own, where each has a bound of processor time and of memory.

A case is a label and a call. What it raises has to be of the errors that its machine names; it may use four seconds of a
processor (then the process ends, with a stack that says where), and 256 MiB more than there were. A module of cases says
`found("tests.values.sql_functions")`, which runs `python -m tests.values.watched` on it, and gets a line for each fault.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from reprlib import Repr
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
CPU_SECONDS_MAX = 4.0
"""More than patterns may take for all their matches in one text (`ottla.java`)."""
GROWN_BYTES_MAX = 256 << 20
DATA_BYTES_MAX = 3 << 30
FAULTS_MAX = 5_000
ENDS_MAX = 20
_KIB = 1024


_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxlong = 3, 40, 40, 3, 3, 40


def short(value: object) -> str:
    """Return a value for a label; a number of many digits is not written out for it."""
    return _SHORT.repr(value)


class Case(NamedTuple):
    """A call, and which errors are its named answers."""

    label: str
    call: Callable[[], object]
    errors: tuple[type[BaseException], ...]


def found(module: str, *arguments: str) -> list[str]:
    """Return what was wrong with the cases of a module's `cases(*arguments)`.

    Where a case ends its process, another one goes on behind it: one fault does not hide the others.
    """
    faults: list[str] = []
    done = 0
    for _ in range(ENDS_MAX):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.values.watched", str(done), module, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=600,
            check=False,
        )
        lines = ran.stdout.splitlines()
        faults += [str(json.loads(line)) for line in lines if line.startswith('"')]
        labels = [line for line in lines if line.startswith("#")]
        if labels and labels[-1] == "#end":
            return faults
        faults.append(f"the process ended with {ran.returncode} in {labels[-1:]}: {ran.stderr[:1500]}")
        done += len(labels)
        if not labels:
            break
    return faults


def run(cases: Iterable[Case]) -> None:
    """Run cases here, and print what is wrong with them."""
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES_MAX, DATA_BYTES_MAX))
    faults = 0
    for case in cases:
        os.write(1, f"#{json.dumps(case.label)[:300]}\n".encode())
        fault = _fault(case)
        if fault is not None:
            faults += 1
            os.write(1, f"{json.dumps(f'{case.label[:300]}: {fault[:500]}')}\n".encode())
            assert faults < FAULTS_MAX, "too many faults to go on"
    os.write(1, b"#end\n")


def _fault(case: Case) -> str | None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
    fault = None
    try:
        case.call()
    except case.errors as error:
        if not str(error):
            fault = f"{type(error).__name__} says nothing"
    except BaseException as error:  # whatever it is, it is the fault that is looked for
        fault = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * _KIB
    return f"{grown >> 20} MiB more" if grown > GROWN_BYTES_MAX and fault is None else fault


if __name__ == "__main__":
    run(islice(importlib.import_module(sys.argv[2]).cases(*sys.argv[3:]), int(sys.argv[1]), None))
