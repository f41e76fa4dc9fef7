"""The standalone worker's offsets file: what was stored is in the file, whoever else stores at the same moment."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from ottla.connect import ConnectError, OffsetFile

WRITERS, STORES = 8, 30
WAITS_SECONDS = 0.1


def key(writer: int) -> bytes:
    return json.dumps([f"connector-{writer}", {"file": "a"}]).encode()


def test_offsets_that_many_threads_store_at_once_are_all_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    offsets, failed, start = OffsetFile(path), [], threading.Barrier(WRITERS)

    def store(writer: int) -> None:
        start.wait()
        for n in range(STORES):
            try:
                offsets.write([(key(writer), b'{"n":%d}' % n)])
                found = OffsetFile(path).state.offset(f"connector-{writer}", {"file": "a"})
                assert found == {"n": n}, "what was acknowledged is in the file"
            except (ConnectError, AssertionError) as error:
                failed.append(error)

    threads = [threading.Thread(target=store, args=(each,)) for each in range(WRITERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    whole = OffsetFile(path).state
    assert [whole.offset(f"connector-{each}", {"file": "a"}) for each in range(WRITERS)] == [
        {"n": STORES - 1}
    ] * WRITERS


def test_offsets_that_could_not_be_written_are_not_told(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    offsets = OffsetFile(path)
    offsets.write([(key(1), b'{"n":1}')])
    path.rename(tmp_path / "kept")
    path.mkdir()
    with pytest.raises(ConnectError, match="Could not write offsets"):
        offsets.write([(key(1), b'{"n":2}')])
    assert offsets.state.offset("connector-1", {"file": "a"}) == {"n": 1}
    path.rmdir()
    (tmp_path / "kept").rename(path)
    offsets.write([(key(1), b'{"n":3}')])
    assert OffsetFile(path).state.offset("connector-1", {"file": "a"}) == {"n": 3}


@pytest.mark.parametrize("step", [1, 2])
def test_a_store_that_begins_in_the_midst_of_another_takes_nothing_from_it(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets, fsync = OffsetFile(tmp_path / "connect.offsets"), os.fsync
    steps = iter(range(1, 100))
    other = threading.Thread(target=lambda: offsets.write([(key(2), b'{"n":2}')]))

    def flushed(descriptor: int) -> None:
        fsync(descriptor)
        if next(steps) == step:
            other.start()
            other.join(WAITS_SECONDS)  # it is through by then, or waits for the first

    monkeypatch.setattr(os, "fsync", flushed)
    offsets.write([(key(1), b'{"n":1}')])
    other.join()
    found = OffsetFile(tmp_path / "connect.offsets").state
    assert [found.offset(f"connector-{each}", {"file": "a"}) for each in (1, 2)] == [{"n": 1}, {"n": 2}]
