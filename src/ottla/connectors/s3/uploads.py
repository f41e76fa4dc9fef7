"""Objects on their way to S3: parts and whole objects are sent by a few threads while records go on being taken.

Nothing that is written raises. What sending ran into is told by `check`, `done` and `wait`, which send the same once more
where that may help; until then the bytes are kept. An object is there as a whole or not at all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from ottla.connect import ConnectError, RetriableError
from ottla.connectors.s3.client import expecting
from ottla.connectors.storage import Held

__all__ = ["PARTS_WAITING_MAX", "Bucket", "S3File", "Tagging"]

log = logging.getLogger(__name__)

THREADS = 8
PARTS_WAITING_MAX = 4
"""How many parts of an object may be under way before `write` waits for one."""


@dataclass(frozen=True, slots=True)
class Tagging:
    """How objects are tagged once they are there: which tags beside the offsets, and whether an error ends the task."""

    more: Mapping[str, str]
    must: bool

    def of(self, held: Held) -> list[dict[str, str]]:
        """Return an object's tags, as S3 has them."""
        own = {"startOffset": str(held.first), "endOffset": str(held.last), "recordCount": str(held.records)}
        return [{"Key": key, "Value": value} for key, value in {**self.more, **own}.items()]


class Bucket:
    """A bucket that objects are sent to; a `Store` for `TopicWriter`."""

    def __init__(
        self,
        client: Any,
        name: str,
        *,
        part_bytes: int,
        whole: Mapping[str, str] | None = None,
        parts: Mapping[str, str] | None = None,
        wrap: Callable[[S3File], Any] | None = None,
        tagging: Tagging | None = None,
    ) -> None:
        self.client, self.name, self.part_bytes = client, name, part_bytes
        self.whole, self.parts = dict(whole or {}), dict(parts or {})
        self.tagging = tagging
        self._wrap = wrap
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="s3-upload")

    def create(self, key: str) -> Any:
        """See `Store`."""
        file = S3File(self, key)
        return file if self._wrap is None else self._wrap(file)

    def close(self) -> None:
        """Send nothing more; what is under way ends by itself."""
        self.pool.shutdown(wait=False, cancel_futures=True)


class _Job:
    """One request, sent again after a failure that may pass."""

    def __init__(self, pool: ThreadPoolExecutor, send: Callable[[], Any]) -> None:
        self._pool, self._send = pool, send
        self._future: Future[Any] | None = pool.submit(send)
        self.result: Any = None

    @property
    def future(self) -> Future[Any] | None:
        """The request, None when it has gone well."""
        return self._future

    def done(self) -> bool:
        """Return whether it has gone well; raises what it ran into, once it has been sent again where that may help."""
        if self._future is None:
            return True
        if not self._future.done():
            return False
        try:
            self.result = self._future.result()
        except RetriableError:
            self._future = self._pool.submit(self._send)
            raise
        self._future = None
        self._send = _nothing
        return True

    def wait(self) -> None:
        """Return when it has gone well; raises as `done` does."""
        if self._future is not None:
            wait((self._future,))
            self.done()


def _nothing() -> None:
    """Stands for a request that is over, so that its bytes are let go of."""


class S3File:
    """An object that is written, and once it is ended its own `Upload`."""

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket, self.key = bucket, key
        self._buffer = bytearray()
        self._parts: list[_Job] = []
        self._end: _Job | None = None
        self._held: Held | None = None
        self._tag: _Job | None = None
        self._ended = False
        self._upload_id: str | None = None
        self._size = 0
        self._lock = threading.Lock()

    def write(self, data: bytes | memoryview, /) -> int:
        """See `Output`; waits where too much is under way, and raises nothing."""
        self._buffer += data
        self._size += memoryview(data).nbytes
        size = self._bucket.part_bytes
        while len(self._buffer) > size:
            self._send_part(bytes(memoryview(self._buffer)[:size]))
            del self._buffer[:size]
        return len(data)

    def _send_part(self, piece: bytes) -> None:
        waiting = [job.future for job in self._parts if job.future is not None and not job.future.done()]
        if len(waiting) >= PARTS_WAITING_MAX:
            wait((waiting[0],))
        number = len(self._parts) + 1
        self._parts.append(_Job(self._bucket.pool, lambda: self._put_part(number, piece)))

    def _arguments(self) -> dict[str, str]:
        return {"Bucket": self._bucket.name, "Key": self.key}

    def _multipart(self) -> str:
        """Return the id of the upload in parts, which the first part begins."""
        with self._lock:
            if self._upload_id is None:
                client = self._bucket.client
                found = expecting(
                    lambda: f"Cannot begin s3://{self._bucket.name}/{self.key}",
                    lambda: client.create_multipart_upload(**self._arguments(), **self._bucket.whole),
                )
                self._upload_id = found["UploadId"]
            assert self._upload_id is not None
            return self._upload_id

    def _put_part(self, number: int, piece: bytes) -> dict[str, Any]:
        upload_id = self._multipart()
        found = expecting(
            lambda: f"Cannot send part {number} of s3://{self._bucket.name}/{self.key}",
            lambda: self._bucket.client.upload_part(
                **self._arguments(), UploadId=upload_id, PartNumber=number, Body=piece, **self._bucket.parts
            ),
        )
        return {"ETag": found["ETag"], "PartNumber": number}

    def check(self) -> None:
        """See `StoredFile`."""
        for job in self._parts:
            job.done()

    def commit(self, held: Held) -> S3File:
        """End the object: whatever is left is sent, and it appears once all of it is there."""
        self._ended, self._held = True, held
        if self._parts:
            if self._buffer:
                self._send_part(bytes(self._buffer))
            self._buffer = bytearray()
            self._advance()
        else:
            body, self._buffer = bytes(self._buffer), bytearray()
            self._end = _Job(self._bucket.pool, lambda: self._put_whole(body))
        return self

    def _put_whole(self, body: bytes) -> None:
        expecting(
            lambda: f"Cannot write s3://{self._bucket.name}/{self.key}",
            lambda: self._bucket.client.put_object(**self._arguments(), Body=body, **self._bucket.whole),
        )

    def _advance(self) -> None:
        """Ask for the parts to be put together, once the last has gone well."""
        if self._end is None and all(job.future is None for job in self._parts):
            self._end = _Job(self._bucket.pool, self._complete)

    def _complete(self) -> None:
        parts = [job.result for job in self._parts]
        try:
            expecting(
                lambda: f"Cannot put the parts of s3://{self._bucket.name}/{self.key} together",
                lambda: self._bucket.client.complete_multipart_upload(
                    **self._arguments(), UploadId=self._upload_id, MultipartUpload={"Parts": parts}
                ),
            )
        except ConnectError as error:
            if not _is_over(error) or not self._is_there():
                raise
            log.info("s3://%s/%s was put together before: the answer was lost", self._bucket.name, self.key)

    def _is_there(self) -> bool:
        """Return whether the object is there, with as many bytes as were sent for it."""
        key = {name: value for name, value in self._bucket.parts.items() if name.startswith("SSECustomer")}
        try:
            found = expecting(
                lambda: f"Cannot look for s3://{self._bucket.name}/{self.key}",
                lambda: self._bucket.client.head_object(**self._arguments(), **key),
            )
        except RetriableError:
            raise
        except ConnectError:
            return False
        return bool(found["ContentLength"] == self._size)

    def done(self) -> bool:
        """See `Upload`."""
        if not all(job.done() for job in self._parts):
            return False
        self._advance()
        return self._end is not None and self._end.done() and self._is_tagged()

    def wait(self) -> None:
        """See `Upload`."""
        for job in self._parts:
            job.wait()
        self._advance()
        assert self._end is not None
        self._end.wait()
        if not self._is_tagged():
            assert self._tag is not None
            self._tag.wait()

    def _is_tagged(self) -> bool:
        """Begin to tag an object that is there, where that is asked for; return whether nothing is left to do."""
        if self._bucket.tagging is None:
            return True
        if self._tag is None:
            self._tag = _Job(self._bucket.pool, self._put_tags)
        return self._tag.done()

    def _put_tags(self) -> None:
        tagging, held = self._bucket.tagging, self._held
        assert tagging is not None and held is not None
        try:
            expecting(
                lambda: f"Cannot tag s3://{self._bucket.name}/{self.key}",
                lambda: self._bucket.client.put_object_tagging(
                    **self._arguments(), Tagging={"TagSet": tagging.of(held)}
                ),
            )
        except ConnectError as error:
            if tagging.must:
                raise
            log.warning("%s; it stays without tags", error)

    def abort(self) -> None:
        """Throw the object away; parts that were sent are deleted."""
        wait([job.future for job in self._parts if job.future is not None])
        if self._upload_id is not None:
            try:
                expecting(
                    lambda: f"Cannot delete the parts of s3://{self._bucket.name}/{self.key}",
                    lambda: self._bucket.client.abort_multipart_upload(**self._arguments(), UploadId=self._upload_id),
                )
            except ConnectError as error:
                if not _is_over(error):
                    log.warning("%s; a lifecycle rule of the bucket removes them", error)


def _is_over(error: ConnectError) -> bool:
    """Return whether an upload in parts is none any more: it was ended or given up before."""
    cause: Any = error.__cause__
    return bool(getattr(cause, "response", {}).get("Error", {}).get("Code") == "NoSuchUpload")
