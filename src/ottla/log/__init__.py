"""One partition's bytes, in Kafka's on-disk format.

A `Log` is a folder of segments with their indexes, the leader epochs and the producers' state: append, read, look up,
truncate, roll, retain, recover. Compaction plans (`plan_cleaning`), works in another process (`clean`) and puts in place
(`Installation`). A `LogDir` is one entry of `log.dirs`: its identity, its lock, its checkpoints and the logs in it.
Everything reaches the file system through a `Disk`; only `os_disk.py` touches the operating system. No call here waits for
anything but the disk, and those that fsync say so: the shell runs them on a thread.
"""

from ottla.log.admission import JoinedAppend
from ottla.log.cleanable import Cleanable, CleanerBuffers, cleanable, is_as_planned, plan_cleaning
from ottla.log.cleaner import clean
from ottla.log.cleaning_plan import CleaningAborted, CleaningPlan, CleaningResult
from ottla.log.config import LogConfig
from ottla.log.disk import (
    Buffer,
    Disk,
    Entry,
    File,
    FileLock,
    HeldFile,
    NoSpaceError,
    Space,
    join,
    parent,
    replace_file,
)
from ottla.log.flush_mark import flushed_end
from ottla.log.installation import Installation, install
from ottla.log.log import Log
from ottla.log.log_dir import FoundLog, LogDir, LogDirLockedError, delete_folder, is_log_dir, partition_folders
from ottla.log.names import is_stray_folder
from ottla.log.os_disk import OsDisk, files_open_max
from ottla.log.producer_state import Doubt, Examined, examine
from ottla.log.properties import MetaProperties, read_meta
from ottla.log.recovery import recover
from ottla.log.types import (
    AbortedTransaction,
    AppendInfo,
    AppendOrigin,
    EpochEnd,
    EpochStart,
    LogSlice,
    RecoveryReport,
    TimestampOffset,
)

__all__ = [
    "AbortedTransaction",
    "AppendInfo",
    "AppendOrigin",
    "Buffer",
    "Cleanable",
    "CleanerBuffers",
    "CleaningAborted",
    "CleaningPlan",
    "CleaningResult",
    "Disk",
    "Doubt",
    "Entry",
    "EpochEnd",
    "EpochStart",
    "Examined",
    "File",
    "FileLock",
    "FoundLog",
    "HeldFile",
    "Installation",
    "JoinedAppend",
    "Log",
    "LogConfig",
    "LogDir",
    "LogDirLockedError",
    "LogSlice",
    "MetaProperties",
    "NoSpaceError",
    "OsDisk",
    "RecoveryReport",
    "Space",
    "TimestampOffset",
    "clean",
    "cleanable",
    "delete_folder",
    "examine",
    "files_open_max",
    "flushed_end",
    "install",
    "is_as_planned",
    "is_log_dir",
    "is_stray_folder",
    "join",
    "parent",
    "partition_folders",
    "plan_cleaning",
    "read_meta",
    "recover",
    "replace_file",
]
