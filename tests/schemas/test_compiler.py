"""The process of Protobuf's compiler: it ends with who asked, and its end is nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from ottla.schemas import Limits
from ottla.schemas.protobuf.compiler import ProtobufCompiler

FILES = {"a.proto": 'syntax = "proto3"; message A {}'}


@pytest.fixture
def compiler() -> Iterator[ProtobufCompiler]:
    made = ProtobufCompiler()
    yield made
    made.close()


def children(process: psutil.Process) -> list[psutil.Process]:
    found = []
    for each in process.children():
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):  # another test's, which has just ended
            if any("compiler_process" in part for part in each.cmdline()):
                found.append(each)
    return found


def test_a_process_that_was_killed_is_started_again(compiler: ProtobufCompiler) -> None:
    here = psutil.Process(os.getpid())
    before = children(here)
    first = compiler.compiled("a.proto", FILES, Limits())
    (process,) = [each for each in children(here) if each not in before]
    process.kill()
    process.wait(30)
    assert compiler.compiled("a.proto", FILES, Limits()) == first


def test_the_process_ends_when_it_is_closed(compiler: ProtobufCompiler) -> None:
    here = psutil.Process(os.getpid())
    before = children(here)
    compiler.compiled("a.proto", FILES, Limits())
    compiler.close()
    assert children(here) == before


def test_the_process_ends_with_the_one_that_started_it() -> None:
    program = (
        "import os, psutil, sys\n"
        "from ottla.schemas import SchemaType, parse\n"
        "parse(SchemaType.PROTOBUF, 'syntax = \"proto3\"; message A {}')\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False).stdout
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(int(said))
        psutil.wait_procs([process], timeout=30)
        assert process.status() == psutil.STATUS_ZOMBIE, "it has ended, whoever is to take notice of that"
