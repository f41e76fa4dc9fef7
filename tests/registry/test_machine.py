"""What an id and a version mean stays, whatever is asked in whatever mode, over compaction and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.core import (
    RegistryError,
    StoredSchema,
    Wanted,
    delete_subject,
    delete_version,
    encode,
    register,
    set_mode,
)
from ottla.registry.core.lookups import by_id
from ottla.registry.core.records import SubjectCleared
from ottla.schemas import SchemaReference
from tests.registry.machine.book import Book, compacted, folded, seen
from tests.registry.machine.mutations import MUTATIONS, Mutation
from tests.registry.machine.run import checked

SEEDS = 1500


def registered(book: Book, subject: str, text: str, **more: Any) -> StoredSchema:
    found: StoredSchema = book.do(register(book.state, subject, Wanted(text, **more), default_level="NONE"))
    return found


def restarted(book: Book) -> None:
    book.log = compacted(book.log, before=len(book.log), keeps_tombstones=False)
    book.restart()


def import_mode(book: Book, subject: str | None, *, force: bool = False) -> None:
    book.do(set_mode(book.state, subject, "IMPORT", is_mutable=True, force=force))


def delete(book: Book, subject: str, *, permanent: bool = False) -> Any:
    return book.do(delete_subject(book.state, subject, permanent=permanent))


def test_an_id_of_a_version_that_import_has_forgotten_is_never_another_schema() -> None:
    book = Book()
    registered(book, "s", "A")
    registered(book, "s", "B")
    delete(book, "s")
    import_mode(book, "s")
    for _ in range(2):
        with pytest.raises(RegistryError, match="id 2 is not permitted: another schema had this id"):
            registered(book, "s", "C", id=2, version=1)
        restarted(book)
    assert registered(book, "t", "C").id == 3
    assert registered(book, "s", "B", id=2).id == 2, "the same schema may have its id again"


def test_import_writes_over_no_version_that_is_there() -> None:
    book = Book()
    registered(book, "s", "A")
    registered(book, "s", "B")
    import_mode(book, "s", force=True)
    for _ in range(2):
        with pytest.raises(RegistryError, match="Version 2 of subject s is another schema, with id 2"):
            registered(book, "s", "A", id=7, version=2)
        restarted(book)
    assert by_id(book.state, 2).text == "B"
    assert registered(book, "s", "B", id=2, version=2).version == 2


def test_import_gives_a_deleted_version_back_and_no_other_its_number() -> None:
    book = Book()
    registered(book, "s", "A")
    delete(book, "s")
    import_mode(book, "s", force=True)
    with pytest.raises(RegistryError, match="marked as deleted"):
        registered(book, "s", "B", id=9, version=1)
    assert not registered(book, "s", "A", id=1, version=1).deleted


def test_import_forgets_nothing_that_others_refer_to() -> None:
    book = Book()
    registered(book, "money", "m")
    delete(book, "money")
    registered(book, "order", "o", references=(SchemaReference("m", "money", 1),))
    with pytest.raises(RegistryError, match="One or more references exist"):
        import_mode(book, "money")


def test_registering_again_keeps_a_deleted_version_that_others_refer_to() -> None:
    book = Book()
    registered(book, "money", "m")
    delete(book, "money")
    registered(book, "order", "o", references=(SchemaReference("m", "money", 1),))
    assert registered(book, "money", "m").version == 2
    assert set(book.state.versions("money")) == {1, 2}


def test_a_mark_of_deletion_outlives_a_later_deletion_of_fewer_versions() -> None:
    book = Book()
    for text in "ABC":
        registered(book, "s", text)
    delete(book, "s")
    import_mode(book, "s", force=True)
    registered(book, "s", "A", id=1, version=1)
    delete(book, "s")  # version 1 alone lives
    before = seen(book.state)
    restarted(book)
    assert seen(book.state) == before
    assert [each.deleted for each in book.state.versions("s").values()] == [True, True, True]


def test_a_subject_deleted_for_good_goes_with_versions_that_were_deleted_before_it() -> None:
    book = Book()
    registered(book, "s", "A")
    registered(book, "s", "B")
    book.do(delete_version(book.state, "s", 1, permanent=False))
    assert delete(book, "s") == [2]
    restarted(book)
    assert delete(book, "s", permanent=True) == [1, 2]
    restarted(book)
    assert not book.state.versions("s")
    assert registered(book, "t", "C").id == 3


def test_what_an_old_log_forgot_by_one_record_keeps_its_ids() -> None:
    book = Book()
    registered(book, "s", "A")
    delete(book, "s")
    book.log.append(encode(SubjectCleared("s")))
    book.restart()
    import_mode(book, "s")
    with pytest.raises(RegistryError, match="another schema had this id"):
        registered(book, "s", "B", id=1)


def test_requests_by_chance_change_no_meaning() -> None:
    said = {seed: found for seed in range(SEEDS) if (found := checked(seed)) is not None}
    assert not said


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_fault_that_is_put_back_is_found(mutation: Mutation) -> None:
    with mutation.made():
        said = checked(mutation.seed)
    assert said is not None, "look for another seed: python -m tests.registry.machine --mutations"


def test_a_log_is_compacted_as_brokers_do() -> None:
    log = [(b"a", b"1"), (b"b", b"1"), (b"a", None), (b"b", b"2")]
    assert compacted(log, before=3, keeps_tombstones=True) == [(b"b", b"1"), (b"a", None), (b"b", b"2")]
    assert compacted(log, before=4, keeps_tombstones=False) == [(b"b", b"2")]
    assert not folded(()).subjects()
