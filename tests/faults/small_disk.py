"""What `test_small_disk` runs on a small file system: fill it, be refused, perhaps die; then look what is there.

What was acknowledged is printed into a file in memory's own file system (`/dev/shm`), one line each, so that the process
that looks knows what the one before it was told.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from ottla.base import NoSpaceError, TopicPartition
from ottla.log import AppendOrigin, Log, LogConfig, LogDir, OsDisk, delete_folder
from ottla.wire import Record, build_batch
from tests.faults.said import records_of
from tests.faults.soundness import check_sound
from tests.log.records import NOW, batch, marker

PARTITION = TopicPartition("t", 0)
CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=1, file_delete_delay_ms=0, retention_ms=-1)
REFUSALS = 3
SPACE_BYTES_MAX = 64 << 10
"""What may be taken when everything that was deleted has gone."""


def notes(folder: str) -> Path:
    """Return the file that says what was acknowledged."""
    return Path("/dev/shm") / ("ottla-small-" + folder.strip("/").replace("/", "-"))


def opened(folder: str, config: LogConfig = CONFIG) -> tuple[LogDir, Log]:
    """Open the log, or make it."""
    log_dir = LogDir.open(OsDisk(), folder)
    log_dir.found()
    return log_dir, log_dir.open_log(PARTITION, config, now_ms=NOW)


def fill(log: Log, act: str, said: dict[int, bytes]) -> None:
    """Append until there is no room, three times; a refused batch changes nothing."""
    refused = number = 0
    while refused < REFUSALS:
        number += 1
        end, value = int(log.log_end_offset), b"v%d" % number + b"x" * 50
        try:
            if act == "replicate":
                records = [Record(end, NOW + number, None, value, ())]  # type: ignore[arg-type]
                data = build_batch(records, base_offset=end, leader_epoch=number // 20)
                log.append_replicated(data, leader_epoch=1 << 30, now_ms=NOW + number)
            elif act == "abort":
                log.append(batch([value], producer=(9, 0, (number - 1) % 1000), transactional=True), leader_epoch=0)
                said[end] = value
                end, value = end + 1, b""
                log.append(marker(9, 0, commit=False), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
            else:
                log.append(batch([value]), leader_epoch=number // 20, now_ms=NOW + number)
        except NoSpaceError:
            refused += 1
            number -= act == "abort"
            assert log.log_end_offset == end, f"ends at {log.log_end_offset}, not at {end}"
            continue
        said[end] = value
        if number > 20_000:
            raise AssertionError("the disk does not fill up")


def turn_over(folder: str, act: str) -> None:
    """Write ten times what fits, and delete: what is deleted gives its space back."""
    config = replace(CONFIG, retention_bytes=8000) if act == "retain" else CONFIG
    log_dir, log = opened(folder, config)
    disk = log_dir.disk
    for round_number in range(40):
        for number in range(400):
            log.append(batch([b"x" * 50]), leader_epoch=0, now_ms=NOW + number)
        if act == "retain":
            for path in log.housekeep(NOW + round_number):
                disk.unlink(path)
        else:
            log_dir.delete_log(PARTITION, unique=f"{round_number:032d}", now_ms=NOW, delay_ms=0)
            for doomed in log_dir.take_doomed(NOW + 1):
                delete_folder(disk, doomed)
            log = log_dir.open_log(PARTITION, config, now_ms=NOW)
    found = os.statvfs(folder)
    taken = (found.f_blocks - found.f_bfree) * found.f_frsize
    assert taken < SPACE_BYTES_MAX, f"{taken} bytes are taken"
    log_dir.close()
    notes(folder).write_text("")


def look(folder: str) -> None:
    """Everything that was acknowledged is there, nothing else, and the log goes on."""
    said = {
        int(offset): bytes.fromhex(value)
        for offset, _, value in (line.partition(" ") for line in notes(folder).read_text().splitlines())
    }
    notes(folder).unlink()
    log_dir, log = opened(folder)
    if said:
        found = {offset: value or b"" for offset, value in records_of(log).items()}
        assert {each: value for each, value in found.items() if value} == {
            each: value for each, value in said.items() if value
        }, f"{len(found)} records, {len(said)} were acknowledged"
        assert log.log_end_offset == max(said) + 1
    check_sound(log)
    log_dir.close()
    print("all is there")


def main() -> None:
    """`ACT FOLDER die|stay`."""
    act, folder, end = sys.argv[1:]
    if act == "look":
        look(folder)
        return
    if act in ("delete", "retain"):
        turn_over(folder, act)
        return
    log_dir, log = opened(folder)
    said: dict[int, bytes] = {}
    fill(log, act, said)
    assert len(records_of(log)) >= len(said)
    notes(folder).write_text("".join(f"{offset} {value.hex()}\n" for offset, value in said.items()))
    if end == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        log_dir.close()
    except NoSpaceError:
        print("not closed cleanly: there is no room for that")


if __name__ == "__main__":
    main()
