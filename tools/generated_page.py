"""What every generator of one page does with its text: write it, or say whether the page is current."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_or_check"]

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(page: Path, text: str, argv: list[str]) -> int:
    """Write the page; with `--check` only say whether it is current. Returns the exit code."""
    if "--check" not in argv:
        page.write_text(text)
        return 0
    if not page.exists() or page.read_text() != text:
        print(f"{page.relative_to(ROOT)} is stale")
        return 1
    return 0
