"""`ottla dump-log`: what is in a partition's files, in the words of Kafka's `kafka-dump-log` (DumpLogSegments)."""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any

from ottla.base import OttlaError
from ottla.cli.options import Options, UsageError, warn, whole_number
from ottla.cli.records.dump_records import Decoder, batch_line, record_line

__all__ = ["main"]

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
TRANSACTION_ENTRY = Struct(">hqqqq")
SNAPSHOT_HEAD = Struct(">hIi")
SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
DECODERS = ("offsets", "transaction-log", "cluster-metadata", "share-group-state")
BYTES_MAX = 2**31 - 1
"""Kafka's default of `--max-bytes`, which stands for all."""
BOOTSTRAP_NAME = "bootstrap.checkpoint"
BATCH_HEAD = Struct(">qi")

Rows = Iterator[tuple[str, dict[str, Any]]]
"""What is printed, as a line of text and as a JSON value."""


@dataclass
class Notices:
    """What does not fit together, told behind everything else: as text on standard error, in Kafka's words and order.

    Each is a file, the line that names it with what is wrong, and lines with their JSON values.
    """

    index: list[Notice] = field(default_factory=list)
    timestamps: list[Notice] = field(default_factory=list)
    order: list[Notice] = field(default_factory=list)
    missing: list[Notice] = field(default_factory=list)
    gaps: list[Notice] = field(default_factory=list)

    def tell(self, *, as_json: bool) -> None:
        """Print them all."""
        for path, head, rows in (*self.index, *self.timestamps, *self.order, *self.missing, *self.gaps):
            if as_json:
                for _, value in rows:
                    print(json.dumps({"file": str(path), "notice": head.rstrip(" :"), **value}))
            else:
                warn("\n".join([f"{head}{path.absolute()}", *(text for text, _ in rows)]))


Notice = tuple[Path, str, list[tuple[str, dict[str, Any]]]]


def main(argv: list[str]) -> int:
    """Print every file named; 0 when all could be read, else 1."""
    args = options().parse(argv)
    if not args.files:
        raise UsageError("Missing required argument: --files FILE[,FILE...]")
    chosen = [name for name in DECODERS if getattr(args, f"{name.replace('-', '_')}_decoder")]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]}-decoder and --{chosen[1]}-decoder exclude each other")
    args.decoder = Decoder(chosen[0] if chosen else None, args.key_decoder_class, args.value_decoder_class)
    args.print_data_log = args.print_data_log or bool(chosen or args.key_decoder_class or args.value_decoder_class)
    args.notices = Notices()
    as_json = args.output == "json"
    failed = False
    for name in args.files.split(","):
        path = Path(name)
        if not as_json:
            print(f"Dumping {name}")
        try:
            for text, value in rows_of(path, args):
                print(json.dumps({"file": name, **value}) if as_json else text)
        except BrokenPipeError:
            raise  # the reader of this command has gone, not the file
        except (OSError, OttlaError, ValueError) as error:
            print(f"ottla dump-log: {name}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
            failed = True
    args.notices.tell(as_json=as_json)
    return 1 if failed else 0


def options() -> Options:
    """Return the parser."""
    parser = Options("dump-log", "Print what is in a partition's files.")
    parser.add_argument(
        "--files", metavar="FILE[,FILE...]", help="log, index, snapshot and checkpoint files (required)"
    )
    parser.add_argument("--print-data-log", action="store_true", help="print keys and values of a log's records")
    parser.add_argument("--deep-iteration", action="store_true", help="print every record, not only batches")
    parser.add_argument("--skip-record-metadata", action="store_true", help="print keys and values alone")
    parser.add_argument(
        "--verify-index-only", action="store_true", help="compare an index with its log, print no entries"
    )
    parser.add_argument("--index-sanity-check", action="store_true", help="check an index as a broker's start does")
    for name, default, meaning in (
        ("max-bytes", BYTES_MAX, "of a log, read this much"),
        ("max-message-size", 5 << 20, "accepted, as by Kafka"),
    ):
        parser.add_argument(f"--{name}", type=whole_number, default=default, metavar="BYTES", help=meaning)
    for part in ("key", "value"):
        parser.add_argument(
            f"--{part}-decoder-class", metavar="CLASS", help="StringDecoder (default), LongDecoder or IntegerDecoder"
        )
    for name in DECODERS:
        parser.add_argument(
            f"--{name}-decoder", action="store_true", help=f"print {name.replace('-', ' ')} records as JSON"
        )
    parser.add_argument("--output", choices=("text", "json"), default="text", help="json: one object per line")
    return parser


def rows_of(path: Path, args: Any) -> Rows:
    """Yield what a file holds, by the kind that its name says."""
    kinds: dict[str, Callable[[Path, Any], Rows]] = {
        ".log": log_rows,
        ".checkpoint": log_rows,
        ".index": index_rows,
        ".timeindex": time_index_rows,
        ".snapshot": snapshot_rows,
        ".txnindex": transaction_index_rows,
    }
    rows = kinds.get(path.suffix)
    if rows is None:
        warn(f"Ignoring unknown file {path}")
        return
    yield from rows(path, args)


def batches_of(path: Path, limit: int) -> Iterator[tuple[bytes, int]]:
    """Yield (bytes, position) of each whole batch; last, what cannot be a whole batch, if anything is left."""
    size = min(path.stat().st_size, limit)
    with path.open("rb") as file:
        position = 0
        while position < size:
            head = file.read(BATCH_HEAD.size)
            length = BATCH_HEAD.unpack(head)[1] if len(head) == BATCH_HEAD.size else -1
            if length < 0 or position + BATCH_HEAD.size + length > size:
                file.seek(position)
                yield file.read(size - position), position
                return
            yield head + file.read(length), position
            position += BATCH_HEAD.size + length


def log_rows(path: Path, args: Any) -> Rows:
    """Yield a log's batches and, where asked, their records."""
    from ottla.wire import BATCH_OVERHEAD, LENGTH_END, iter_batch_records, read_batch_header

    yield from begin_rows(path)
    last: int | None = None
    gaps: list[tuple[str, dict[str, Any]]] = []
    for data, position in batches_of(path, args.max_bytes):
        if len(data) < BATCH_OVERHEAD or len(data) != LENGTH_END + BATCH_HEAD.unpack_from(data)[1]:
            if args.max_bytes == BYTES_MAX:
                yield f"Found {len(data)} invalid bytes at the end of {path.name}", {"invalidBytes": len(data)}
            break
        header = read_batch_header(data, 0)
        yield batch_line(header, data, position)
        if args.deep_iteration or args.print_data_log:
            for record in iter_batch_records(data, 0, header):
                yield record_line(header, record, args)
                if last is not None and record.offset != last + 1:
                    text = f"  {last} is followed by {record.offset}"
                    gaps.append((text, {"before": last, "after": record.offset}))
                last = record.offset
    if gaps:
        args.notices.gaps.append((path, "Non-consecutive offsets in ", gaps))


def begin_rows(path: Path) -> Rows:
    """Yield what a log's or snapshot's name says of where it begins, or ends."""
    offset, _, epoch = path.stem.partition("-")
    if path.name == BOOTSTRAP_NAME:
        yield "KRaft bootstrap snapshot", {"bootstrap": True}
    elif path.suffix == ".checkpoint" and offset.isdigit() and epoch.isdigit():
        value = {"snapshotEndOffset": int(offset), "epoch": int(epoch)}
        yield f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}", value
    elif offset.isdigit():
        yield f"Log starting offset: {int(offset)}", {"logStartingOffset": int(offset)}


def base_offset_of(path: Path) -> int:
    """Return the offset that a segment's files are named by; raises ValueError where the name is not a number."""
    if not path.stem.isdigit():
        raise ValueError("the name of a segment's file is its base offset, 20 digits")
    return int(path.stem)


def entries_of(data: bytes, entry: Struct) -> Iterator[tuple[Any, ...]]:
    """Yield an index's entries; a preallocated file ends with zeros, which are none."""
    usable = len(data) - len(data) % entry.size
    for index, values in enumerate(entry.iter_unpack(data[:usable])):
        if index and not any(values):
            return
        yield values


def index_rows(path: Path, args: Any) -> Rows:
    """Yield an offset index's entries, and note those that do not fit its log."""
    base = base_offset_of(path)
    data = path.read_bytes()
    entries = [(base + relative, position) for relative, position in entries_of(data, OFFSET_ENTRY)]
    if args.index_sanity_check and entries:
        if len(data) % OFFSET_ENTRY.size or entries[-1][0] < base:
            raise ValueError("the index is corrupt: its length or its last entry cannot be")
        yield f"{path} passed sanity check.", {"sane": True}
        return
    if not entries or (len(entries) == 1 and entries[0] == (base, 0)):
        yield f"{path} is empty.", {"empty": True}
        return
    log = path.with_suffix(".log")
    mismatches: list[tuple[str, dict[str, Any]]] = []
    for offset, position in entries:
        found = batch_at(log, position)
        if found is None or found.last_offset != offset:
            other = found.last_offset if found else -1
            text = f"  Index offset: {offset}, log offset: {other}"
            mismatches.append((text, {"indexOffset": offset, "logOffset": other}))
        if not args.verify_index_only:
            yield f"offset: {offset} position: {position}", {"offset": offset, "position": position}
    if mismatches:
        args.notices.index.append((path, "Mismatches in :", mismatches))


def batch_at(log: Path, position: int) -> Any:
    """Return the header of the batch at a position of a log, or None where there is none."""
    from ottla.wire import BATCH_OVERHEAD, read_batch_header

    if not log.exists():
        return None
    with log.open("rb") as file:
        file.seek(position)
        head = file.read(BATCH_OVERHEAD)
    return read_batch_header(head, 0) if len(head) == BATCH_OVERHEAD else None


def time_index_rows(path: Path, args: Any) -> Rows:
    """Yield a time index's entries, and note those that are out of order or do not fit the log."""
    base = base_offset_of(path)
    data = path.read_bytes()
    entries = [(timestamp, base + relative) for timestamp, relative in entries_of(data, TIME_ENTRY)]
    ordered = all(one < other for one, other in pairwise(entries))
    if args.index_sanity_check:
        if len(data) % TIME_ENTRY.size or not ordered:
            raise ValueError("the time index is corrupt: its length or its order cannot be")
        yield f"{path} passed sanity check.", {"sane": True}
        return
    for timestamp, offset in entries:
        if not args.verify_index_only:
            yield f"timestamp: {timestamp} offset: {offset}", {"timestamp": timestamp, "offset": offset}
    log = path.with_suffix(".log")
    if entries and log.exists():
        _compare_times(path, entries, [*batch_maxima(log)], args.notices)


def _compare_times(
    path: Path, entries: list[tuple[int, int]], batches: list[tuple[int, int]], notices: Notices
) -> None:
    """Note which entries name no batch of the log, another time than its largest, or a time that is not beyond the last."""
    wrong: list[tuple[str, dict[str, Any]]] = []
    order: list[tuple[str, dict[str, Any]]] = []
    missing: list[tuple[str, dict[str, Any]]] = []
    before = -1
    for timestamp, offset in entries:
        at = bisect_left(batches, (offset, -(2**63)))
        last, largest = batches[at] if at < len(batches) else (-1, -1)
        if last != offset:
            text = f"Indexed offset: {offset}, found log offset: {last}"
            missing.append((text, {"indexOffset": offset, "logOffset": last}))
        elif largest != timestamp:
            text = f"  Index timestamp: {timestamp}, log timestamp: {largest}"
            wrong.append((text, {"indexTimestamp": timestamp, "logTimestamp": largest}))
        if last == offset and before >= timestamp:
            text = f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}"
            order.append((text, {"indexTimestamp": timestamp, "previousTimestamp": before}))
        before = timestamp
    for noted, head, rows in (
        (notices.timestamps, "Found timestamp mismatch in :", wrong),
        (notices.order, "Found out of order timestamp in :", order),
        (notices.missing, "The following indexed offsets are not found in :", missing),
    ):
        if rows:
            noted.append((path, head, rows))


def batch_maxima(log: Path) -> Iterator[tuple[int, int]]:
    """Yield (last offset, largest timestamp) of a log's batches."""
    from ottla.wire import BATCH_OVERHEAD, read_batch_header

    for data, _ in batches_of(log, 2**63):
        if len(data) >= BATCH_OVERHEAD:
            header = read_batch_header(data, 0)
            yield header.last_offset, header.max_timestamp


def snapshot_rows(path: Path, args: Any) -> Rows:
    """Yield the producers of a producer state snapshot."""
    from ottla.wire import crc32c

    data = path.read_bytes()
    if len(data) < SNAPSHOT_HEAD.size:
        raise ValueError("the snapshot is shorter than its head")
    version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
    if crc != crc32c(data[6:]) or len(data) != SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY.size:
        raise ValueError(f"the snapshot is corrupt (version {version}, checksum {crc})")
    for producer, epoch, last, offset, delta, time, coordinator, first in SNAPSHOT_ENTRY.iter_unpack(
        data[SNAPSHOT_HEAD.size :]
    ):
        begun = f"OptionalLong[{first}]" if first >= 0 else "OptionalLong.empty"
        text = (
            f"producerId: {producer} producerEpoch: {epoch} coordinatorEpoch: {coordinator} "
            f"currentTxnFirstOffset: {begun} lastTimestamp: {time} "
        )
        if offset >= 0:
            text += (
                f"firstSequence: {(last - delta) & 0x7FFFFFFF} lastSequence: {last} lastOffset: {offset} "
                f"offsetDelta: {delta} timestamp: {time}"
            )
        names = ("producerId", "producerEpoch", "lastSequence", "lastOffset", "offsetDelta", "lastTimestamp")
        value = dict(zip(names, (producer, epoch, last, offset, delta, time), strict=True))
        yield text, {**value, "coordinatorEpoch": coordinator, "currentTxnFirstOffset": first if first >= 0 else None}


def transaction_index_rows(path: Path, args: Any) -> Rows:
    """Yield the aborted transactions of a transaction index."""
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    data = path.read_bytes()
    for values in TRANSACTION_ENTRY.iter_unpack(data[: len(data) - len(data) % TRANSACTION_ENTRY.size]):
        row = dict(zip(names, values, strict=True))
        yield " ".join(f"{name}: {value}" for name, value in row.items()), row
