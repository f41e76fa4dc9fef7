"""What is the same for all formats when a text is read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.base import bring_extra
from ottla.schemas import InvalidSchemaError, SchemaReference, SchemaType, parse


@pytest.mark.parametrize(("schema_type", "package"), [("JSON", "jsonschema"), ("PROTOBUF", "grpc_tools")])
def test_a_library_that_is_not_installed_is_named_with_what_brings_it(schema_type: str, package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from ottla.schemas import *\n"
        f"try: parse(SchemaType.{schema_type}, 'true')\n"
        "except InvalidSchemaError as error: print(error)\n"
        "print(parse(SchemaType.AVRO, '\"int\"').canonical())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    advice = f"the Python package {package}, which is not installed: {bring_extra('registry')}"
    assert done.stdout.splitlines() == [f"{schema_type} schemas need {advice}", '"int"']


@pytest.mark.parametrize("schema_type", SchemaType)
def test_a_text_has_something_in_it_and_is_not_too_large(schema_type: SchemaType) -> None:
    for text, said in (
        ("", "empty"),
        (" \n", "empty"),
        ("a" * (1 << 20) + "a", "larger than 1048576 bytes"),
        ("\ud800", "half"),
    ):
        with pytest.raises(InvalidSchemaError, match=said):
            parse(schema_type, text)


@pytest.mark.parametrize("schema_type", SchemaType)
def test_a_reference_that_nobody_can_look_up_is_refused(schema_type: SchemaType) -> None:
    with pytest.raises(InvalidSchemaError, match="nothing to look the reference 'a' up in"):
        parse(schema_type, '"int"', [SchemaReference("a", "a", 1)])
