"""Texts of users in Markdown: nothing is markup (CommonMark, GFM), and all else stays as it is."""

import pytest

from dashboards.review.render import markdown


@pytest.mark.parametrize(
    "text",
    [
        "Is SSO (v2.1) on Pro? Yes - for $20!",
        "the key max_open_seconds, 3 < 4, AT&T, a@ b, {x}, #5 + 1",
        "lexical-v3/2026.11",
    ],
)
def test_plain_text_is_left_alone(text: str) -> None:
    assert markdown(text) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("[x](javascript:y)", r"\[x\](javascript:y)"),
        ("![x](http://e.com)", r"!\[x\](http\://e.com)"),
        ("see https://e.com or WWW.e.com", r"see https\://e.com or WWW\.e.com"),
        ("<script>", r"\<script>"),
        ("&lt;b&#62;", r"\&lt;b\&#62;"),
        ("**b** _i_ `c` ~~s~~", r"\*\*b\*\* \_i\_ \`c\` \~\~s\~\~"),
        (r"\*", r"\\\*"),
        ("ask @bob", r"ask \@bob"),
        ("# head", r"\# head"),
        ("- item", r"\- item"),
        ("> quote", r"\> quote"),
        ("12. item", r"12\. item"),
        ("one\n\n# two\n---", "one # two ---"),
    ],
)
def test_markup_is_escaped(text: str, escaped: str) -> None:
    assert markdown(text) == escaped
