"""A source task's requests for transactions' bounds (`transaction.boundary=connector`), taken once each by the loop."""

from __future__ import annotations

from ottla.connect import ConnectError, SourceRecord

__all__ = ["BoundaryRequests"]


class BoundaryRequests:
    """What a task has asked for; its `TransactionContext`. Records are known by identity."""

    def __init__(self) -> None:
        self._commit: dict[int, SourceRecord] = {}
        self._abort: dict[int, SourceRecord] = {}
        self._commit_batch = self._abort_batch = False

    def commit(self, record: SourceRecord | None = None) -> None:
        """See `TransactionContext`; raises ConnectError where the opposite is asked for too."""
        if record is None:
            self._commit_batch = True
            self._check(self._abort_batch, "batch")
        else:
            self._commit[id(record)] = record
            self._check(id(record) in self._abort, "record")

    def abort(self, record: SourceRecord | None = None) -> None:
        """See `TransactionContext`; raises ConnectError where the opposite is asked for too."""
        if record is None:
            self._abort_batch = True
            self._check(self._commit_batch, "batch")
        else:
            self._abort[id(record)] = record
            self._check(id(record) in self._commit, "record")

    def _check(self, is_both: bool, what: str) -> None:
        if is_both:
            raise ConnectError(f"Connector requested both commit and abort of same {what}")

    def takes_commit(self, record: SourceRecord) -> bool:
        """Return whether the transaction ends behind a record."""
        return bool(self._commit) and self._commit.pop(id(record), None) is not None

    def takes_abort(self, record: SourceRecord) -> bool:
        """Return whether the transaction is aborted behind a record."""
        return bool(self._abort) and self._abort.pop(id(record), None) is not None

    def takes_batch_commit(self) -> bool:
        """Return whether the transaction ends behind the batch."""
        found, self._commit_batch = self._commit_batch, False
        return found

    def takes_batch_abort(self) -> bool:
        """Return whether the transaction is aborted behind the batch."""
        found, self._abort_batch = self._abort_batch, False
        return found
