"""Base64 data URLs."""

from __future__ import annotations

import pytest

from streamkit.history import FileBlock
from streamkit.providers.data_urls import DataURL, file_data, parse_data_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("data:image/png;base64,iVBOR", DataURL("image/png", "iVBOR")),
        ("DATA:Image/PNG;charset=utf-8;base64,iVBOR", DataURL("image/png", "iVBOR")),
        ("data:text/plain,hello", None),
        ("data:;base64,iVBOR", None),
        ("https://example.org/a.png", None),
    ],
)
def test_a_base64_data_url_has_a_media_type_and_data(url: str, expected: DataURL | None) -> None:
    assert parse_data_url(url) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (FileBlock(media_type="Text/CSV", data="YQ=="), ("text/csv", "YQ==")),
        (FileBlock(data="data:text/csv;base64,YQ=="), ("text/csv", "YQ==")),
        (FileBlock(media_type="text/html", data="data:text/csv;base64,YQ=="), ("text/html", "YQ==")),
        (FileBlock(url="https://example.org/a"), ("", None)),
    ],
)
def test_the_data_of_a_file_may_be_a_data_url(block: FileBlock, expected: tuple[str, str | None]) -> None:
    assert file_data(block) == expected
