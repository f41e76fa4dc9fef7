"""The door to Protobuf's compiler, which is C++ that strangers' texts are given to: it runs in a process of its own."""

from __future__ import annotations

import base64
import json
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import grpc_tools

from ottla.schemas.interface import InvalidSchemaError, Limits

__all__ = ["ProtobufCompiler", "check_import_name", "compiler"]

assert grpc_tools, "what the process needs; where it is absent, who asks is told here"
_SCRIPT = Path(__file__).with_name("compiler_process.py")
_NAME_CHARS_MAX = 255
_ANSWER_BYTES_MAX = 128 << 20
_LOG_LINE = re.compile(r"[IWEF]\d{4} |WARNING: All log messages")


class ProtobufCompiler:
    """Starts the process when it is first needed, and again when it has ended; one text is compiled at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def compiled(self, main: str, files: Mapping[str, str], limits: Limits) -> bytes:
        """Return descriptors (a FileDescriptorSet) of a file and of all that it imports; raises InvalidSchemaError.

        What is imported is among the files, or one of the compiler's own (`google/protobuf/*.proto`).
        """
        for name in files:
            check_import_name(name)
        seconds = max(1, round(limits.compile_seconds_max))
        request = {"main": main, "files": dict(files), "seconds": seconds, "bytes": limits.compile_bytes_max}
        with self._lock:
            answer = self._asked(json.dumps(request).encode(), time.monotonic() + 3 * seconds)
        if answer["status"] == 0:
            return base64.b64decode(str(answer["descriptors"]))
        lines = [line for line in str(answer["said"]).splitlines() if not _LOG_LINE.match(line)]
        said = "; ".join(lines).strip()
        if answer["status"] != 1 or not said:
            raise InvalidSchemaError("Protobuf's compiler gave up on this text: it needs too much time or memory")
        raise InvalidSchemaError(f"Invalid Protobuf schema: {said}")

    def close(self) -> None:
        """End the process, where there is one."""
        with self._lock:
            self._end()

    def _asked(self, request: bytes, deadline: float) -> dict[str, object]:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            left = memoryview(len(request).to_bytes(4) + request)
            while left:
                left = left[process.stdin.write(left) :]
            head = self._read(process, 4, deadline)
            size = int.from_bytes(head)
            if size > _ANSWER_BYTES_MAX:
                raise InvalidSchemaError("Protobuf's compiler made too much of this text")
            answer: dict[str, object] = json.loads(self._read(process, size, deadline))
        except (OSError, EOFError, TimeoutError) as error:
            self._end()
            raise InvalidSchemaError("Protobuf's compiler did not outlive this text") from error
        except BaseException:
            self._end()  # what it still answers belongs to no later request
            raise
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            command = [sys.executable, "-I", str(_SCRIPT)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        return self._process

    def _read(self, process: subprocess.Popen[bytes], size: int, deadline: float) -> bytes:
        assert process.stdout is not None
        found = bytearray()
        while len(found) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                raise TimeoutError
            part = process.stdout.read(size - len(found))
            if not part:
                raise EOFError
            found += part
        return bytes(found)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait()


compiler = ProtobufCompiler()
"""The one of this process."""


def check_import_name(name: str) -> None:
    """Raise InvalidSchemaError where a name is none that a file can import."""
    parts = PurePosixPath(name).parts
    clean = name == "/".join(parts) and all(part not in ("", ".", "..", "/") and part[0] != "." for part in parts)
    if not parts or not clean or len(name) > _NAME_CHARS_MAX or not name.isprintable() or "\\" in name:
        raise InvalidSchemaError(f"{name[:_NAME_CHARS_MAX]!r} is not a name that a Protobuf file can import")
