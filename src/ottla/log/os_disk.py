"""`Disk` on the operating system: the one file of this package that touches it.

Descriptors are opened when first needed and closed, oldest unused first, beyond a bound, so that ten thousand partitions
cost no more than that. A reader on another thread keeps the descriptor that it uses alive by referring to it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Final

from ottla.base import UMASK, UMASK_DEFAULT, MissingFileError, NoSpaceError, OttlaError, StorageError, parse_umask
from ottla.log.disk import Buffer, Entry, File, FileLock, Space

__all__ = ["OsDisk", "files_open_max"]

DESCRIPTORS_MAX: Final = 20_000
"""More open files gain nothing: what is read or written is open, and the rest opens in 5 µs."""


def _closed_to() -> int:
    """Return which rights nobody else has; where the environment is wrong, as the command says, all of them."""
    try:
        mask = parse_umask(os.environ.get(UMASK, ""))
    except OttlaError:
        mask = None
    return UMASK_DEFAULT if mask is None else mask


FILE_MODE: Final = 0o666 & ~_closed_to()
FOLDER_MODE: Final = 0o777 & ~_closed_to()
"""Records, logins' hashes and tokens are in them: they are this user's, whatever the umask says, or `OTTLA_UMASK`'s."""
FSYNC_THREADS: Final = 16
"""Measured on ext4: 300 small files take 1.4 s one by one, 0.06 s with 16 threads."""
FSYNCS_ALONE: Final = 4
"""Fewer are not worth threads."""
BUFFERS_MAX: Final = 1024
"""IOV_MAX of Linux."""
DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY
_PROBE: Final = bytearray(1)
CANNOT_SAY: Final = (errno.EOPNOTSUPP, errno.EINVAL)
"""What file systems answer that cannot tell what is in memory: tmpfs, old overlays."""
NO_LINK: Final = frozenset(
    {errno.ENOENT, errno.EMLINK, errno.EPERM, errno.EACCES, errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS}
)
"""Why a file gets no further name where the disk is well: whoever wanted it writes another file."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What ran out is bytes or inodes, a quota, the largest file, descriptors or the kernel's memory: the disk is well."""


OF_FILES: Final = frozenset(
    {errno.EIO, errno.EUCLEAN, errno.EBADMSG, errno.ENODATA, errno.ESTALE, errno.ENXIO, errno.EREMOTEIO}
)
"""What a copy from a file to a socket meets where the file is what fails: no socket says any of these."""


class OsDisk:
    """The machine's file systems. Picklable: a worker process gets its own."""

    def __init__(self, descriptors_max: int | None = None) -> None:
        """Keep at most this many files open; by default half of what the process may, whose limit is raised first."""
        self._descriptors_max = descriptors_max
        self._bound = descriptors_max or files_open_max(_raised_limit())
        self._open_files: dict[int, OsFile] = {}
        self._lock = threading.Lock()
        self._renaming = threading.Lock()
        """Held while an open file object's name and its `path` are not the same."""

    def __reduce__(self) -> tuple[type[OsDisk], tuple[int | None]]:
        return OsDisk, (self._descriptors_max,)

    @property
    def open_descriptors(self) -> int:
        """Files that are open now."""
        return len(self._open_files)

    def open(self, path: str, *, create: bool = False) -> File:
        """Return the file; see `Disk.open`."""
        file = OsFile(self, path)
        if create:
            file._open(os.O_RDWR | os.O_CREAT)
        else:
            try:
                os.stat(path)
            except OSError as error:
                raise _failed(path, error) from error
        return file

    def read(self, path: str) -> bytes | None:
        """Return a whole file; see `Disk.read`."""
        try:
            with open(path, "rb", buffering=0, opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise OSError(errno.EINVAL, "it is not a regular file")
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(path, error) from error

    def scan(self, path: str) -> list[Entry]:
        """Return a folder's entries; see `Disk.scan`."""
        try:
            with os.scandir(path) as found:
                return sorted(entry for each in found if (entry := _entry(each)) is not None)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(path, error) from error

    def exists(self, path: str) -> bool:
        """See `Disk.exists`."""
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:  # a dead disk does not say that the file is missing
            raise _failed(path, error) from error
        return True

    def mkdir(self, path: str) -> None:
        """See `Disk.mkdir`."""
        try:
            try:
                os.mkdir(path, FOLDER_MODE)
            except (FileNotFoundError, FileExistsError):
                _make_folders(path)
        except OSError as error:
            raise _failed(path, error) from error

    def rename(self, source: str, target: str) -> None:
        """See `Disk.rename`."""
        try:
            os.replace(source, target)
        except OSError as error:
            raise _failed(source, error) from error

    def link(self, source: str, target: str) -> bool:
        """See `Disk.link`."""
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno in NO_LINK:
                return False
            raise _failed(target, error) from error
        return True

    def unlink(self, path: str) -> None:
        """See `Disk.unlink`."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _failed(path, error) from error

    def rmdir(self, path: str) -> None:
        """See `Disk.rmdir`."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _failed(path, error) from error

    def fsync_dir(self, path: str) -> None:
        """See `Disk.fsync_dir`."""
        try:
            descriptor = os.open(path, DIRECTORY)
        except OSError as error:
            raise _failed(path, error) from error
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _not_synced(path, error) from error
        finally:
            os.close(descriptor)

    def fsync_all(self, files: Sequence[File], folders: Sequence[str] = ()) -> None:
        """See `Disk.fsync_all`."""
        if len(files) + len(folders) < FSYNCS_ALONE:
            for file in files:
                file.fsync()
            for folder in folders:
                self.fsync_dir(folder)
            return
        _on_threads([file.fsync for file in files])
        _on_threads([partial(self.fsync_dir, folder) for folder in folders])

    def lock(self, path: str) -> FileLock | None:
        """See `Disk.lock`."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        except OSError as error:
            raise _failed(path, error) from error
        try:
            # flock keeps another holder out of this process too, and lockf is the kind that a JVM takes
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise _failed(path, error) from error
        return _Lock(descriptor)

    def mutex(self) -> AbstractContextManager[object]:
        """See `Disk.mutex`."""
        return threading.Lock()

    def space(self, path: str) -> Space:
        """See `Disk.space`."""
        try:
            found = os.statvfs(path)
        except OSError as error:
            raise _failed(path, error) from error
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def _opened(self, file: OsFile) -> None:
        """Count an open file, and close the oldest that nobody used lately where there are too many."""
        files = self._open_files
        with self._lock:
            files[id(file)] = file
            while len(files) > self._bound:
                oldest = files.pop(next(iter(files)))
                if oldest._used:
                    oldest._used = False
                    files[id(oldest)] = oldest
                else:
                    oldest._descriptor = None

    def _closed(self, file: OsFile) -> None:
        with self._lock:
            self._open_files.pop(id(file), None)


class OsFile:
    """A file by its path, with a descriptor while it is used."""

    __slots__ = ("_descriptor", "_disk", "_used", "cut_to", "cuts", "path")

    def __init__(self, disk: OsDisk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._descriptor: _Descriptor | None = None
        self._used = False
        self.cuts = 0
        self.cut_to = 0
        """The shortest that the file was cut to, where `cuts` is not 0."""

    def pread(self, position: int, size: int) -> bytes:
        """See `File.pread`."""
        descriptor = self._descriptor or self._open()
        self._used = True
        return _read(descriptor, self.path, position, size)

    def pread_nowait(self, position: int, size: int) -> Buffer | None:
        """See `File.pread_nowait`."""
        descriptor = self._descriptor or self._open()
        self._used = True
        return _read_nowait(descriptor, self.path, position, size)

    def pread_into(self, position: int, into: memoryview) -> int | None:
        """See `File.pread_into`."""
        descriptor = self._descriptor or self._open()
        self._used = True
        return _read_into(descriptor, self.path, position, into)

    def pwrite(self, position: int, *buffers: Buffer) -> None:
        """See `File.pwrite`."""
        descriptor = self._descriptor or self._open()
        self._used = True
        try:
            descriptor.pwrite(position, buffers)
        except OSError as error:
            raise _failed(self.path, error) from error

    def truncate(self, size: int) -> None:
        """See `File.truncate`."""
        descriptor = self._descriptor or self._open()
        self.cut_to = min(size, self.cut_to) if self.cuts else size
        self.cuts += 1
        try:
            descriptor.truncate(size)
        except OSError as error:
            raise _failed(self.path, error) from error

    def size(self) -> int:
        """See `File.size`."""
        descriptor = self._descriptor or self._open()
        try:
            return descriptor.size()
        except OSError as error:
            raise _failed(self.path, error) from error

    def fsync(self) -> None:
        """See `File.fsync`."""
        descriptor = self._descriptor or self._open()
        try:
            descriptor.fsync()
        except OSError as error:
            raise _not_synced(self.path, error) from error

    def hold(self) -> OsHeldFile:
        """See `File.hold`."""
        descriptor = self._descriptor or self._open()
        self._used = True
        return OsHeldFile(self, descriptor)

    def close(self) -> None:
        """See `File.close`."""
        self._descriptor = None
        self._disk._closed(self)

    def rename(self, target: str) -> None:
        """See `File.rename`."""
        with self._disk._renaming:
            self._disk.rename(self.path, target)
            self.path = target

    def release(self) -> None:
        """See `File.release`."""
        self._disk._closed(self)

    def _open(self, flags: int = os.O_RDWR) -> _Descriptor:
        path = self.path
        try:
            descriptor = _Descriptor(os.open(path, flags, FILE_MODE))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise _failed(path, error) from error
            descriptor = self._open_renamed(flags)
        else:
            if self.path != path:  # what has the old name now may be another file
                descriptor = self._open_renamed(flags)
        self._descriptor = descriptor
        self._disk._opened(self)
        return descriptor

    def _open_renamed(self, flags: int) -> _Descriptor:
        """Open the file while nobody renames it."""
        with self._disk._renaming:
            try:
                return _Descriptor(os.open(self.path, flags, FILE_MODE))
            except OSError as error:
                raise _failed(self.path, error) from error


class OsHeldFile:
    """A descriptor that stays open for as long as this lives, shared with all that hold the file now."""

    __slots__ = ("_cuts", "_descriptor", "_file")

    def __init__(self, file: OsFile, descriptor: _Descriptor) -> None:
        self._file = file
        self._descriptor = descriptor
        self._cuts = file.cuts

    def sendfile(self, socket_fd: int, position: int, size: int) -> int:
        """See `HeldFile.sendfile`."""
        try:
            return os.sendfile(socket_fd, self._descriptor.fd, position, size)
        except OSError as error:
            if error.errno in OF_FILES:
                raise _failed(self._file.path, error) from error
            raise

    def pread(self, position: int, size: int) -> bytes:
        """See `HeldFile.pread`."""
        return _read(self._descriptor, self._file.path, position, size)

    def pread_nowait(self, position: int, size: int) -> Buffer | None:
        """See `HeldFile.pread_nowait`."""
        return _read_nowait(self._descriptor, self._file.path, position, size)

    def pread_into(self, position: int, into: memoryview) -> int | None:
        """See `HeldFile.pread_into`."""
        return _read_into(self._descriptor, self._file.path, position, into)

    def is_cached(self, position: int, size: int) -> bool:
        """See `HeldFile.is_cached`."""
        try:
            os.preadv(self._descriptor.fd, (_PROBE,), position, os.RWF_NOWAIT)
            if size > 1:
                os.preadv(self._descriptor.fd, (_PROBE,), position + size - 1, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def was_cut(self, end: int) -> bool:
        """See `HeldFile.was_cut`; where the file was cut more than once, it may say so too early."""
        file = self._file
        return file.cuts != self._cuts and file.cut_to < end


class _Descriptor:
    """An open descriptor, closed when nobody refers to it any more.

    What is done with its number is a method of it, or a function that takes it: compiled code lets go of a local name
    after its last use, which may be before the call that was given the number, but never of a caller's argument.
    """

    __slots__ = ("_close", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._close: Callable[[int], None] = os.close
        """Kept here: at exit the module may be gone first."""

    def __del__(self) -> None:
        self._close(self.fd)

    def pwrite(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all the bytes, in as many calls as it takes."""
        if len(buffers) == 1:
            written, total = os.pwrite(self.fd, buffers[0], position), len(buffers[0])
        else:
            written = os.pwritev(self.fd, buffers[:BUFFERS_MAX], position)
            total = sum(map(len, buffers))
        if written < total:
            rest = memoryview(b"".join(buffers))
            while written < total:
                written += os.pwrite(self.fd, rest[written:], position + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def fsync(self) -> None:
        os.fsync(self.fd)


class _Lock:
    """A held lock; the operating system lets it go when the process ends."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Give the lock up; a second time nothing happens."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _entry(found: os.DirEntry[str]) -> Entry | None:
    try:
        status = found.stat()
        folder = found.is_dir()
    except FileNotFoundError:  # removed meanwhile
        return None
    return Entry(found.name, 0 if folder else status.st_size, folder, status.st_mtime_ns // 1_000_000)


def _on_threads(tasks: Sequence[Callable[[], None]]) -> None:
    """Run all the tasks, on this thread and on as many others as can be had; then raise the gravest error."""
    waiting = deque(tasks)
    errors: list[Exception] = []

    def work() -> None:
        while True:
            try:
                task = waiting.popleft()
            except IndexError:
                return
            try:
                task()
            except Exception as error:  # the caller raises one when all have ended
                errors.append(error)

    threads: list[threading.Thread] = []
    for _ in range(min(FSYNC_THREADS, len(tasks)) - 1):
        thread = threading.Thread(target=work)
        try:
            thread.start()
        except RuntimeError:  # the machine gives no more threads, which is no failure of a disk
            break
        threads.append(thread)
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise next((error for error in errors if not isinstance(error, NoSpaceError)), errors[0])


def _read(descriptor: _Descriptor, path: str, position: int, size: int) -> bytes:
    fd = descriptor.fd
    try:
        data = os.pread(fd, size, position)
        while 0 < len(data) < size and (more := os.pread(fd, size - len(data), position + len(data))):
            data += more
    except OSError as error:
        raise _failed(path, error) from error
    return data


def _read_nowait(descriptor: _Descriptor, path: str, position: int, size: int) -> Buffer | None:
    data = bytearray(size)
    try:
        count = os.preadv(descriptor.fd, [data], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in CANNOT_SAY:
            return _read(descriptor, path, position, size)
        raise _failed(path, error) from error
    return data if count == size else None


def _read_into(descriptor: _Descriptor, path: str, position: int, into: memoryview) -> int | None:
    fd = descriptor.fd
    try:
        try:
            return os.preadv(fd, (into,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in CANNOT_SAY:
                raise
            return os.preadv(fd, (into,), position)
    except OSError as error:
        raise _failed(path, error) from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, also where it is a FIFO that nobody writes to: `open` would wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _failed(path: str, error: OSError) -> StorageError:
    """Return what an operation on a path came to, in the kinds that cost different things."""
    kind: type[StorageError] = StorageError
    if error.errno in NO_ROOM:
        kind = NoSpaceError
    elif error.errno == errno.ENOENT:
        kind = MissingFileError
    return kind(f"{path}: {error.strerror}", path)


def _not_synced(path: str, error: OSError) -> StorageError:
    """As `_failed`, of an fsync: a lack of space too has lost what was written before, so nobody may try again."""
    return StorageError(f"{path}: {error.strerror}", path)


def _make_folders(path: str) -> None:
    """Make a folder and those above it that are missing; `os.makedirs` would give those above other users' access."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path.rstrip("/"))
    if above and not os.path.isdir(above):
        _make_folders(above)
    with suppress(FileExistsError):  # made by somebody else meanwhile
        os.mkdir(path, FOLDER_MODE)
    if not os.path.isdir(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def files_open_max(descriptors: int) -> int:
    """Return how many of a process's descriptors files may have at once: the others are for connections."""
    return min(DESCRIPTORS_MAX, descriptors // 2)


def _raised_limit() -> int:
    """Raise the soft limit of open files to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 1 << 20
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return min(soft, wanted) if soft != resource.RLIM_INFINITY else wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted
