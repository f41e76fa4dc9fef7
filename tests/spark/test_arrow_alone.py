"""Arrow's first array without Pandas: each claim in an interpreter of its own, since what is imported stays."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark
BEGIN = """
import sys
from ottla.spark.arrow_alone import array_without_pandas
import pyarrow as pa
"""


def said(program: str) -> str:
    """Return what a program prints."""
    command = [sys.executable, "-c", BEGIN + program]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip()


def test_the_first_array_does_not_bring_in_pandas() -> None:
    assert said("made = array_without_pandas(); print(made.to_pylist(), 'pandas' in sys.modules)") == "[b''] False"


def test_later_arrays_do_not_either() -> None:
    program = (
        "array_without_pandas(); pa.array([1, None, 'x'][:2]); pa.table({'a': [1]}); print('pandas' in sys.modules)"
    )
    assert said(program) == "False"


def test_arrow_knows_a_series_once_pandas_is_imported() -> None:
    program = """
array_without_pandas()
import pandas
assert pandas.__name__ == 'pandas' and pandas.__spec__.name == 'pandas'
print(pa.array(pandas.Series([1.0, float('nan')])).null_count)
"""
    assert said(program) == "1"


def test_what_needs_pandas_imports_it() -> None:
    assert said("print(list(array_without_pandas().to_pandas()))") == "[b'']"


def test_a_process_that_has_pandas_keeps_it() -> None:
    program = "import pandas; before = list(sys.meta_path); array_without_pandas(); print(before == sys.meta_path)"
    assert said(program) == "True"


def test_a_program_without_pandas_hears_the_usual_error() -> None:
    program = """
sys.path[:] = [each for each in sys.path if 'site-packages' not in each]
array_without_pandas()
try:
    import pandas
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert said(program) == "pandas"
