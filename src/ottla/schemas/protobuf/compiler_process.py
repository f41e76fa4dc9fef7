"""The process in which Protobuf's compiler runs, started as a script: a request at a time, each in a child of its own.

A request and an answer are JSON behind four bytes of length, on standard input and output. Whatever a child does, whether
it crashes, takes all memory or finds no end, it ends alone: it may take so much processor time, memory and clock time.
This file imports nothing of Ottla's, so that it starts quickly.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from grpc_tools import _protoc_compiler

WELL_KNOWN = Path(_protoc_compiler.__file__).parent / "_proto"
RESULT = ".descriptors"
SAID = ".said"
_SAID_CHARS_MAX = 4_000
_RESULT_BYTES_MAX = 64 << 20
_FILES_MAX = 64


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(4)) == 4:
        answer = json.dumps(answered(json.loads(source.read(int.from_bytes(head))))).encode()
        try:
            sink.write(len(answer).to_bytes(4) + answer)
            sink.flush()
        except BrokenPipeError:
            os._exit(0)  # who asked is gone


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """Return what the compiler says of a request's files: descriptors of the main one and all that it imports."""
    with tempfile.TemporaryDirectory(prefix="ottla-protoc-") as folder:
        for name, text in request["files"].items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        child = os.fork()
        if child == 0:
            compile_here(folder, request)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said, result = Path(folder, SAID), Path(folder, RESULT)
        text = said.read_text(encoding="utf-8", errors="replace")[:_SAID_CHARS_MAX] if said.exists() else ""
        made = base64.b64encode(result.read_bytes()).decode() if status == 0 and result.exists() else ""
    return {"status": status, "said": text, "descriptors": made}


def compile_here(folder: str, request: dict[str, Any]) -> NoReturn:
    """Compile inside a child; ends it."""
    status = 99
    try:
        os.chdir(folder)
        limit(resource.RLIMIT_CPU, request["seconds"])
        limit(resource.RLIMIT_AS, request["bytes"])
        limit(resource.RLIMIT_FSIZE, _RESULT_BYTES_MAX)
        limit(resource.RLIMIT_NOFILE, _FILES_MAX)
        limit(resource.RLIMIT_CORE, 0)
        signal.alarm(2 * request["seconds"])
        output = os.open(SAID, os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(output, stream)
        arguments = ["-I.", f"-I{WELL_KNOWN}", "--include_imports", "--retain_options"]
        arguments += [f"--descriptor_set_out={RESULT}", request["main"]]
        status = _protoc_compiler.run_main([b"protoc", *(each.encode() for each in arguments)])
    finally:
        os._exit(status)


def limit(what: int, most: int) -> None:
    """Allow this process so much of something, where the system lets that be said."""
    with suppress(ValueError, OSError):
        resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()
