"""Which versions a new one has to fit, at which level, and what is said where it does not."""

from __future__ import annotations

import pytest

from ottla.schemas import Level, ParsedSchema, SchemaType, check, incompatibilities, parse


def record(*fields: str) -> ParsedSchema:
    return parse(SchemaType.AVRO, f'{{"type":"record","name":"R","fields":[{",".join(fields)}]}}')


A, B = '{"name":"a","type":"int"}', '{"name":"b","type":"int"}'
B_DEFAULT = '{"name":"b","type":"int","default":0}'
NEVER: set[str] = set()
BACKWARD = {Level.BACKWARD, Level.BACKWARD_TRANSITIVE}
FORWARD = {Level.FORWARD, Level.FORWARD_TRANSITIVE}
FULL = {Level.FULL, Level.FULL_TRANSITIVE}


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        (record(A), record(A, B_DEFAULT), NEVER),
        (record(A), record(A, B), BACKWARD | FULL),
        (record(A, B), record(A), FORWARD | FULL),
        (record(A, B_DEFAULT), record(A), NEVER),
        (record(A), parse(SchemaType.JSON, "true"), BACKWARD | FORWARD | FULL),
    ],
)
def test_each_level_asks_in_its_directions(old: ParsedSchema, new: ParsedSchema, refused: set[str]) -> None:
    assert {level for level in Level if check(level, new, [(1, old)])} == refused


def test_a_transitive_level_goes_back_to_the_first_version_that_does_not_fit() -> None:
    older = [(1, record(A)), (2, record(B)), (5, record(A, B_DEFAULT))]
    assert check(Level.BACKWARD, record(A), older) == []
    said = check(Level.BACKWARD_TRANSITIVE, record(A), older)
    assert said[1:] == ["{oldSchemaVersion: 2}", f"{{oldSchema: '{record(B).canonical()}'}}"]


def test_a_reason_has_its_name_and_tells_which_schema_is_new() -> None:
    backward = check(Level.BACKWARD, record(A, B), [(1, record(A))])[0]
    forward = check(Level.FORWARD, record(A), [(1, record(A, B))])[0]
    assert backward.startswith(
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field b at /fields/1 of the new"
    )
    assert "of the old schema has no default, and the new schema" in forward
    assert backward.endswith("additionalInfo:'b'}")


def test_what_a_user_wrote_is_told_as_it_is() -> None:
    new = parse(SchemaType.JSON, '{"type":"object","properties":{"{reader}%s":{"type":"string"}}}')
    old = parse(SchemaType.JSON, '{"type":"object"}')
    assert incompatibilities(new, old)[0].path == "#/properties/{reader}%s"
    assert "#/properties/{reader}%s" in check(Level.BACKWARD, new, [(1, old)])[0]


def test_of_a_large_schema_the_beginning_is_shown() -> None:
    old = parse(SchemaType.JSON, f'{{"type":"object","description":"{"x" * 20_000}"}}')
    said = check(Level.BACKWARD, parse(SchemaType.JSON, '{"type":"string"}'), [(1, old)])
    assert (
        said[-1].startswith('{oldSchema: <truncated to 10240 characters> \'{"type":"object"') and len(said[-1]) < 11_000
    )


def test_nothing_has_to_fit_where_there_is_no_older_version() -> None:
    assert all(check(level, record(A), []) == [] for level in Level)
