"""Names in pages."""

import re

import pytest

from likewise.reports.markup import breakable


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("034.Gray_crowned", "034.<wbr>Gray_<wbr>crowned"),
        ("birds/a-b.webp", "birds/<wbr>a-<wbr>b.<wbr>webp"),
        ("__init__", "__<wbr>init__"),
        ("gull", "gull"),
        ("", ""),
        ("</b>_<i>", "&lt;/<wbr>b&gt;_<wbr>&lt;i&gt;"),
    ],
)
def test_lines_may_break_where_words_of_a_name_end(name: str, expected: str) -> None:
    assert breakable(name) == expected
    assert re.sub("<wbr>", "", expected).replace("&lt;", "<").replace("&gt;", ">") == name
