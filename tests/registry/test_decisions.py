"""What is decided: versions and ids, deletion, references, modes, configurations, contexts. Plain calls, no log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.core import (
    Decision,
    RegistryError,
    State,
    StoredSchema,
    Unreadable,
    Wanted,
    config_answer,
    decode,
    delete_config,
    delete_context,
    delete_subject,
    delete_version,
    encode,
    look_up,
    mode_answer,
    register,
    set_config,
    set_mode,
)
from ottla.registry.core.lookups import (
    LATEST,
    Page,
    by_guid,
    by_id,
    listed_contexts,
    listed_schemas,
    listed_subjects,
    referenced_texts,
    referring,
    stored_alike,
    using,
    version_number,
    version_of,
    versions_of,
)
from ottla.registry.core.names import Subject, checked, context_name, in_context, scope_of
from ottla.schemas import SchemaReference


class Book:
    """A state and the log that it is the fold of: every record goes through its bytes."""

    def __init__(self) -> None:
        self.state = State()
        self.log: list[tuple[bytes, bytes | None]] = []

    def do(self, decision: Decision) -> Any:
        for each in decision.records:
            entry = encode(each)
            self.log.append(entry)
            record = decode(*entry)
            assert not isinstance(record, Unreadable)
            self.state.apply(record)
        return decision.answer

    def register(self, subject: str, text: str, **more: Any) -> StoredSchema:
        schema: StoredSchema = self.do(register(self.state, subject, Wanted(text, **more), default_level="BACKWARD"))
        return schema

    def again(self, *, compacted: bool = False) -> State:
        """Return the state of somebody who reads the log from its beginning."""
        state, last = State(), dict(enumerate(self.log))
        if compacted:
            newest = {key: at for at, (key, _) in last.items()}
            last = {at: last[at] for at in sorted(newest.values()) if last[at][1] is not None}
        for entry in last.values():
            record = decode(*entry)
            assert not isinstance(record, Unreadable)
            state.apply(record)
        return state


def refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(RegistryError) as found:
        call()
    return found.value.code, found.value.message


def seen(state: State) -> object:
    return (
        [(each, each.deleted) for each in state.schemas()],
        state.configs,
        state.modes,
        state.contexts(),
        state.max_ids,
    )


def test_a_schema_has_one_id_in_all_subjects_and_is_registered_once() -> None:
    book = Book()
    first, again = book.register("a", "x"), book.register("a", "x")
    other, second = book.register("b", "x"), book.register("b", "y")
    assert (first.id, first.version) == (again.id, again.version) == (1, 1)
    assert (other.id, other.version, second.id, second.version) == (1, 1, 2, 2)
    assert [each.subject for each in using(book.state, 1)] == ["a", "b"]
    assert by_guid(book.state, first.guid)[0].id == 1


def test_the_same_text_of_another_format_or_with_other_references_is_another_schema() -> None:
    book = Book()
    book.register("money", "m")
    ids = [
        book.register("a", "x").id,
        book.register("b", "x", schema_type="JSON").id,
        book.register("c", "x", references=(SchemaReference("m", "money", 1),)).id,
        book.register("d", "x", metadata={"properties": {"k": "v"}}).id,
    ]
    assert len(set(ids)) == 4


def test_a_lookup_finds_what_is_registered_and_says_what_is_missing() -> None:
    book = Book()
    book.register("a", "x", metadata={"properties": {"k": "v"}})
    assert look_up(book.state, "a", Wanted("x")).version == 1
    assert refused(lambda: look_up(book.state, "a", Wanted("y"))) == (40403, "Schema not found")
    assert refused(lambda: look_up(book.state, "b", Wanted("x"))) == (40401, "Subject 'b' not found.")


def test_a_text_that_a_subject_has_as_it_stands_needs_no_reading() -> None:
    book = Book()
    first = book.register("s", '"int"')
    assert stored_alike(book.state, "s", Wanted('"int"')) == first
    others = (Wanted(' "int"'), Wanted('"int"', "JSON"), Wanted('"int"', references=(SchemaReference("n", "s", 1),)))
    assert [stored_alike(book.state, "s", each) for each in others] == [None, None, None]
    assert stored_alike(book.state, "other", Wanted('"int"')) is None
    book.do(delete_version(book.state, "s", 1, permanent=False))
    assert stored_alike(book.state, "s", Wanted('"int"')) is None


def test_deletion_goes_in_two_steps_with_confluents_words() -> None:
    book = Book()
    book.register("t", "A")
    book.register("t", "B")
    assert book.do(delete_version(book.state, "t", 1, permanent=False)) == 1
    assert versions_of(book.state, "t") == [2] and versions_of(book.state, "t", deleted=True) == [1, 2]
    assert versions_of(book.state, "t", negative=True) == [-1, 2]
    assert refused(lambda: version_of(book.state, "t", 1)) == (40402, "Version 1 not found.")
    assert version_of(book.state, "t", 1, deleted=True).id == 1
    assert by_id(book.state, 1).text == "A", "an id leads to its schema as long as that is not gone for good"
    said = refused(lambda: delete_version(book.state, "t", 1, permanent=False))
    assert said == (40406, "Subject 't' Version 1 was soft deleted.Set permanent=true to delete permanently")
    said = refused(lambda: delete_version(book.state, "t", 2, permanent=True))
    assert said == (40407, "Subject 't' Version 2 was not deleted first before being permanently deleted")
    assert book.do(delete_version(book.state, "t", 1, permanent=True)) == 1
    assert refused(lambda: by_id(book.state, 1)) == (40403, "Schema 1 not found")
    assert refused(lambda: using(book.state, 1)) == (40403, "Schema 1 not found")
    said = refused(lambda: delete_subject(book.state, "t", permanent=True))
    assert said == (40405, "Subject 't' was not deleted first before being permanently deleted")
    assert book.do(delete_subject(book.state, "t", permanent=False)) == [2]
    said = refused(lambda: delete_subject(book.state, "t", permanent=False))
    assert said == (40404, "Subject 't' was soft deleted.Set permanent=true to delete permanently")
    assert listed_subjects(book.state, ":*:") == []
    assert listed_subjects(book.state, ":*:", deleted=True) == ["t"]
    assert book.do(delete_subject(book.state, "t", permanent=True)) == [2]
    assert refused(lambda: delete_subject(book.state, "t", permanent=True)) == (40401, "Subject 't' not found.")


def test_a_schema_that_was_deleted_gets_a_new_version_and_its_old_id() -> None:
    book = Book()
    book.register("t", "A")
    book.register("t", "B")
    book.do(delete_version(book.state, "t", 1, permanent=False))
    again = book.register("t", "A")
    assert (again.id, again.version) == (1, 3)
    assert versions_of(book.state, "t", deleted=True) == [2, 3]


def test_an_id_is_never_given_out_twice_even_after_compaction() -> None:
    book = Book()
    book.register("t", "A")
    book.register("u", "B")
    book.do(delete_subject(book.state, "u", permanent=False))
    book.do(delete_subject(book.state, "u", permanent=True))
    assert register(book.again(compacted=True), "v", Wanted("C"), default_level="NONE").answer.id == 3
    assert book.register("v", "C").id == 3


def test_what_others_refer_to_stays() -> None:
    book = Book()
    book.register("money", "m")
    order = book.register("order", "o", references=(SchemaReference("Money", "money", 1),))
    words = "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=money,version=1}."
    assert refused(lambda: delete_version(book.state, "money", 1, permanent=False)) == (42206, words)
    assert refused(lambda: delete_subject(book.state, "money", permanent=False)) == (42206, words)
    assert [each.id for each in referring(book.state, "money", 1)] == [order.id]
    book.do(delete_subject(book.state, "order", permanent=False))
    assert referring(book.state, "money", 1) == []
    book.do(delete_subject(book.state, "money", permanent=False))
    assert refused(lambda: delete_subject(book.state, "money", permanent=True)) == (42206, words)
    book.do(delete_subject(book.state, "order", permanent=True))
    assert book.do(delete_subject(book.state, "money", permanent=True)) == [1]


def test_references_are_followed_in_their_own_contexts_and_the_latest_is_a_number() -> None:
    book = Book()
    book.register(":.c:cents", "c")
    book.register(":.c:money", "m", references=(SchemaReference("Cents", "cents", 1),))
    settled, found = referenced_texts(book.state, ":.c:order", [SchemaReference("Money", "money", LATEST)])
    assert settled == (SchemaReference("Money", "money", 1),)
    assert set(found) == {(":.c:money", 1), (":.c:cents", 1)}
    said = refused(lambda: referenced_texts(book.state, "order", [SchemaReference("Money", "money", 1)]))
    assert said == (42201, 'No schema reference found for subject "money" and version 1')


def test_modes_decide_who_may_write_and_with_which_ids() -> None:
    book = Book()
    mutable = {"is_mutable": True, "force": False}
    book.do(set_mode(book.state, "r", "readonly", **mutable))
    assert refused(lambda: book.register("r", "x")) == (42205, "Subject r is in read-only mode")
    assert refused(lambda: set_config(book.state, "r", {"compatibility": "FULL"}))[0] == 42205
    assert refused(lambda: mode_answer(book.state, "n", falls_back=False)) == (
        *(40409, "Subject 'n' does not have subject-level mode configured"),
    )
    assert refused(lambda: set_mode(book.state, "r", "WRONG", **mutable))[0] == 42204
    assert refused(lambda: set_mode(book.state, "r", "READWRITE", is_mutable=False, force=False))[0] == 42205
    assert refused(lambda: book.register("t", "x", id=9)) == (42205, "Subject t is not in import mode")
    book.do(set_mode(book.state, "i", "IMPORT", **mutable))
    assert refused(lambda: book.register("i", "x")) == (42205, "Subject i is not in read-write mode")
    imported = book.register("i", "x", id=42, version=5)
    assert (imported.id, imported.version) == (42, 5)
    assert refused(lambda: book.register("i", "y", id=42)) == (
        *(42205, "Overwrite new schema with id 42 is not permitted."),
    )
    assert book.register("t", "y").id == 43
    said = refused(lambda: set_mode(book.state, None, "IMPORT", **mutable))
    assert said == (42205, "Cannot import since found existing subjects")
    book.do(set_mode(book.state, None, "READONLY_OVERRIDE", **mutable))
    assert refused(lambda: book.register("i", "z", id=50))[0] == 42205


def test_import_begins_where_deleted_versions_are_forgotten() -> None:
    book = Book()
    book.register("i", "x")
    book.do(delete_subject(book.state, "i", permanent=False))
    book.do(set_mode(book.state, "i", "IMPORT", is_mutable=True, force=False))
    assert listed_subjects(book.state, ":*:", deleted=True) == []
    assert seen(book.again()) == seen(book.state)


def test_a_configuration_holds_for_its_subject_its_context_or_everything() -> None:
    book = Book()
    state = book.state
    assert config_answer(state, None, "BACKWARD", falls_back=True) == {"compatibilityLevel": "BACKWARD"}
    assert refused(lambda: config_answer(state, "s", "BACKWARD", falls_back=False)) == (
        *(40408, "Subject 's' does not have subject-level compatibility configured"),
    )
    assert book.do(set_config(state, None, {"compatibility": "full", "unknown": 1})) == {"compatibility": "FULL"}
    assert config_answer(state, "s", "BACKWARD", falls_back=True) == {"compatibilityLevel": "FULL"}
    assert config_answer(state, ":.c:s", "BACKWARD", falls_back=True) == {"compatibilityLevel": "BACKWARD"}
    book.do(set_config(state, ":.c:", {"compatibility": "NONE"}))
    assert config_answer(state, ":.c:s", "BACKWARD", falls_back=True) == {"compatibilityLevel": "NONE"}
    book.do(set_config(state, "s", {"normalize": True}))
    book.do(set_config(state, "s", {"compatibility": "FORWARD"}))
    assert state.configs["s"] == {"normalize": True, "compatibilityLevel": "FORWARD"}
    book.do(set_config(state, "s", {"normalize": None}))
    assert book.do(delete_config(state, "s", "BACKWARD")) == {"compatibilityLevel": "FORWARD"}
    assert refused(lambda: delete_config(state, "s", "BACKWARD")) == (40401, "Subject 's' not found.")
    levels = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
    assert refused(lambda: set_config(state, "s", {"compatibility": "X"})) == (
        *(42203, f"Invalid compatibility level. Valid values are {levels}"),
    )
    assert seen(book.again()) == seen(state)


def test_what_has_to_fit_together_is_said_with_the_decision() -> None:
    book = Book()
    book.register("s", "1", metadata={"properties": {"major": "1"}})
    book.register("s", "2", metadata={"properties": {"major": "2"}})
    decision = register(book.state, "s", Wanted("3"), default_level="FULL_TRANSITIVE")
    assert (decision.level, [each.text for each in decision.older]) == ("FULL_TRANSITIVE", ["1", "2"])
    book.do(set_config(book.state, "s", {"compatibility": "FULL", "compatibilityGroup": "major"}))
    decision = register(
        *(book.state, "s", Wanted("3", metadata={"properties": {"major": "1"}})), default_level="BACKWARD"
    )
    assert (decision.level, [each.text for each in decision.older]) == ("FULL", ["1"])
    book.do(set_config(book.state, "s", {"compatibility": "NONE"}))
    assert register(book.state, "s", Wanted("3"), default_level="FULL").older == ()


def test_metadata_is_taken_from_the_configuration_and_from_the_version_before() -> None:
    book = Book()
    book.do(set_config(book.state, "s", {"defaultMetadata": {"properties": {"owner": "us", "a": "b"}}}))
    first = book.register("s", "1", metadata={"properties": {"a": "c"}})
    assert first.metadata == {"properties": {"owner": "us", "a": "c"}}
    assert book.register("s", "2").metadata == first.metadata


def test_contexts_have_ids_of_their_own_and_end_when_they_are_empty() -> None:
    book = Book()
    book.register("s", "default")
    other = book.register(":.c:s", "other")
    assert other.id == 1 and by_id(book.state, 1).text == "default"
    assert by_id(book.state, 1, ":.c:").text == "other"
    assert by_id(book.state, 1, "s").text == "default"
    book.register(":.c:only", "third")
    assert by_id(book.state, 2, "only").text == "third", "a plain name leads to where that subject uses the id"
    assert refused(lambda: by_id(book.state, 2, "s"))[0] == 40403
    assert listed_contexts(book.state, "") == [".", ".c"]
    assert listed_subjects(book.state, ":*:") == ["s", ":.c:only", ":.c:s"]
    assert listed_subjects(book.state, "") == ["s"]
    assert listed_subjects(book.state, ":.c:o") == [":.c:only"]
    assert refused(lambda: delete_context(book.state, ".c")) == (42211, "The specified context '.c' is not empty.")
    for subject in (":.c:only", ":.c:s"):
        for permanent in (False, True):
            book.do(delete_subject(book.state, subject, permanent=permanent))
    book.do(delete_context(book.state, ".c"))
    assert listed_contexts(book.state, "") == ["."]
    assert seen(book.again()) == seen(book.state)


def test_a_subject_that_stands_for_another_leads_to_it() -> None:
    from ottla.registry.core.lookups import aliased

    book = Book()
    book.do(set_config(book.state, "new", {"alias": "old"}))
    assert aliased(book.state, "new") == "old" and aliased(book.state, "old") == "old"


@pytest.mark.parametrize("text", ["", ":.c:", "__GLOBAL", "a\nb", ":*:x"])
def test_names_that_no_subject_may_have_are_refused(text: str) -> None:
    assert refused(lambda: checked(text))[0] == 42208


def test_names_in_contexts_are_read_and_written_alike() -> None:
    assert [str(Subject.of(each)) for each in ("a", ":.:a", ":.c:a", ":.c:")] == ["a", "a", ":.c:a", ":.c:"]
    assert [context_name(each) for each in ("c", ".c", ":.c:")] == [".c", ".c", ".c"]
    assert (in_context(".c", "a"), in_context(".c", ":.d:a"), in_context(".", "a")) == (":.c:a", ":.d:a", "a")


def test_versions_in_paths_are_numbers_or_the_latest() -> None:
    assert [version_number(each) for each in ("1", "latest", "-1", "2147483647")] == [1, LATEST, LATEST, 2**31 - 1]
    for each in ("0", "-2", "x", "2147483648", "", "1.0", "٣"):
        assert refused(lambda each=each: version_number(each))[0] == 42202  # type: ignore[misc]


def test_lists_are_given_in_parts() -> None:
    book = Book()
    for each in "cba":
        book.register(each, each)
    found = listed_schemas(book.state, ":*:")
    assert [each.subject for each in Page(1, 1).of(found)] == ["b"]
    assert [each.subject for each in Page().of(found, 2)] == ["a", "b"]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["register", "soft", "hard", "version", "gone", "config"]),
        st.sampled_from(["a", "b", ":.c:a"]),
        st.sampled_from(["1", "2", "3"]),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(actions=ACTIONS)
def test_who_reads_the_log_comes_to_the_same_state_and_ids_never_change_their_meaning(
    actions: list[tuple[str, str, str]],
) -> None:
    book = Book()
    meanings: dict[tuple[str, int], str] = {}
    for action, subject, text in actions:
        try:
            match action:
                case "register":
                    schema = book.register(subject, text)
                    meaning = (Subject.of(subject).context, schema.id)
                    assert meanings.setdefault(meaning, text) == text
                case "soft" | "hard":
                    book.do(delete_subject(book.state, subject, permanent=action == "hard"))
                case "version" | "gone":
                    book.do(delete_version(book.state, subject, int(text), permanent=action == "gone"))
                case "config":
                    book.do(set_config(book.state, subject, {"compatibility": "NONE"}))
        except RegistryError:
            continue
        if action == "gone" and book.log:
            book.state = book.again(compacted=len(book.log) % 2 == 0)  # as an instance that has started anew
    for state in (book.again(), book.again(compacted=True)):
        assert seen(state) == seen(book.state)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("", None), (":.:", None), (":.__GLOBAL:", ":.__GLOBAL:"), (":.ctx:", ":.ctx:"), (":.:a", "a")),
        *((":.ctx:a", ":.ctx:a"), (":.ctx", ":.ctx:"), (":*:", ":*:"), ("a", "a")),
    ],
)
def test_a_name_of_settings_is_what_it_means(written: str, meant: str | None) -> None:
    assert scope_of(written) == meant


def test_a_subject_is_never_in_a_context_that_stands_for_everything() -> None:
    for each in (":.__GLOBAL:a", ":.__EMPTY:a", ":.__GLOBAL:", ":.:__GLOBAL", ":.ctx:", ":*:a"):
        with pytest.raises(RegistryError) as refused:
            checked(each)
        assert refused.value.code == 42208
    assert Subject.of("a").beside(":.:b") == "b", "a name with the default context is the plain one"


def test_a_context_may_be_named_without_its_second_colon() -> None:
    assert Subject.of(":.ctx") == Subject.of(":.ctx:") == Subject(".ctx", "")
    assert scope_of(":.ctx") == scope_of(":.ctx:") == ":.ctx:"
    assert refused(lambda: checked(":.ctx"))[0] == refused(lambda: checked(":.ctx:"))[0]
    assert in_context(".other", ":.ctx") == ":.ctx"
