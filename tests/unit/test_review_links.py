"""Addresses of the review page: any id comes through, and no browser shortens it."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.review.render import kept, link, linked

# What a browser takes out of an address (URL Standard, single- and double-dot path segments).
DOTS = {".", "%2e", "..", ".%2e", "%2e.", "%2e%2e"}


@given(st.one_of(st.text(max_size=9), st.from_regex(r"\A[./]{0,5}\Z")))
@pytest.mark.parametrize("name", ["..", "%2e%2e", "a/../b", "//evil.example", "?q#x", "a\r\nb"])
def test_every_id_comes_through(name: str, other: str) -> None:
    for one in (name, other):
        address = link("conversation", one, "week=2026-W48", turn="t&=")
        parts = urlsplit(f"http://agent{address}")
        assert (parts.netloc, parts.fragment) == ("agent", "")
        assert parse_qs(parts.query) == {"week": ["2026-W48"], "turn": ["t&="]}
        head, written = parts.path[1:].split("/")
        assert head == "conversation"
        assert written.lower() not in DOTS
        assert linked(unquote(written)) == one


def test_a_list_keeps_what_it_is_asked_for() -> None:
    asked = {"since": "24h", "blind": "1", "q": "x", "segment": "a"}
    assert (
        kept(asked, "since", "week", "blind", segment="b&c") == "?since=24h&blind=1&segment=b%26c"
    )
