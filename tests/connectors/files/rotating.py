"""A process that writes numbered lines to a log and has it rotated: `python -m tests.connectors.files.rotating HOW PATH N`.

HOW is `rename` (logging's RotatingFileHandler), `gzip` (the same, compressing what it rotates), `timed` (dates in
names), or `append` (somebody else rotates, and the file is opened anew where it has moved).
"""

from __future__ import annotations

import gzip
import logging
import logging.handlers
import os
import shutil
import signal
import sys
import time

BYTES_MAX = 40_000
PAUSE_EVERY, PAUSE_S = 200, 0.01


def line(number: int) -> str:
    return f"{number:08d} " + "abcdefghij" * (number % 7)


def _handler(how: str, path: str) -> logging.Handler:
    if how == "timed":
        return logging.handlers.TimedRotatingFileHandler(path, when="S", interval=1, backupCount=0)
    if how == "append":
        return logging.handlers.WatchedFileHandler(path)
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=BYTES_MAX, backupCount=1000)
    if how == "gzip":
        handler.namer = lambda name: name + ".gz"
        handler.rotator = _compress
    return handler


def _compress(source: str, target: str) -> None:
    """Compress as gzip does: into a new file with the old one's times, which is removed at last."""
    if source.endswith(".gz"):
        os.rename(source, target)
        return
    with open(source, "rb") as file, gzip.open(target, "wb") as packed:
        shutil.copyfileobj(file, packed)
    shutil.copystat(source, target)
    os.unlink(source)


def main(how: str, path: str, count: int) -> None:
    handler = _handler(how, path)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.Logger("numbered")
    log.addHandler(handler)
    signal.signal(signal.SIGHUP, lambda *_: None)
    for number in range(count):
        if how == "timed" and number == count // 2:
            handler.rolloverAt = 0  # whatever the clock says, once in the middle
        log.info(line(number))
        if number % PAUSE_EVERY == PAUSE_EVERY - 1:
            time.sleep(PAUSE_S)
    handler.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
