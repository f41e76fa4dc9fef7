"""What is generated from facts is what the generators write today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"


@pytest.mark.parametrize("script", sorted(TOOLS.glob("gen_*.py")), ids=lambda path: path.stem)
def test_generated_files_are_up_to_date(script: Path) -> None:
    result = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"run `make generate`:\n{result.stdout}{result.stderr}"
