"""The page with the answers that it is sent with."""

from __future__ import annotations

import json
import re

import pytest

from ottla.console.first_page import PLACE, FirstPage

PAGE = FirstPage(b"<html>" + PLACE + b"<p></p></html>")
HOSTILE = ("</script><script>alert(1)</script>", "<!--<script>", "\u2028\ud800", "]]>", "&lt;/script&gt;", "\x00")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_ends_the_place_where_answers_stand(text: str) -> None:
    given = {"/api/session": {"user": text}, text: [text]}
    page = PAGE.with_answers(given).decode()
    (found,) = re.findall(r'<script type="application/json" id="given">(.*?)</script>', page, re.DOTALL)
    assert "<" not in found and json.loads(found) == given
    assert page.startswith("<html>") and page.endswith("</script><p></p></html>")


def test_a_page_without_answers_is_the_page_as_it_was_built() -> None:
    assert PAGE.with_answers({}) == b"<html>" + PLACE + b"<p></p></html>"
