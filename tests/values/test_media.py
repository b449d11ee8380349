"""Data URLs, base64 and media types."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.values.media import (
    DataUrl,
    decode_base64,
    decode_text,
    is_base64,
    is_image_source,
    is_text_type,
    is_url,
    media_type_of_name,
    normalize_data,
    normalize_data_url,
    parse_data_url,
    sniff_base64_type,
    sniff_media_type,
    to_data_url,
    to_standard_base64,
)

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data:image/png;base64,AAAA", DataUrl("image/png", "AAAA")),
        ("DATA:Image/PNG;BASE64,AAAA", DataUrl("image/png", "AAAA")),
        ("data:text/plain;charset=utf-8;base64,YQ==", DataUrl("text/plain", "YQ==")),
        ("data:image/png; charset=utf-8; base64,AAAA", DataUrl("image/png", "AAAA")),
        ('data:application/pdf;name="a b.pdf";base64,AAAA', DataUrl("application/pdf", "AAAA")),
        ("data:image/svg+xml;base64,AAAA", DataUrl("image/svg+xml", "AAAA")),
        ("data:;base64,AAAA", DataUrl("", "AAAA")),
        ("data:png;base64,AAAA", DataUrl("", "AAAA")),
        ("data:image/*;base64,AAAA", DataUrl("", "AAAA")),
        ("data:image/png;base64,", DataUrl("image/png", "")),
        ("data:image/png;base64,AA\r\nA A\t", DataUrl("image/png", "AAAA")),
        ("data:image/png;base64,YQ%3D%3d", DataUrl("image/png", "YQ==")),
        ("data:,a%20b", DataUrl("", "YSBi", was_base64=False)),
        ("data:text/plain,a b,c", DataUrl("text/plain", b64encode(b"a b,c").decode(), was_base64=False)),
        ("data:text/plain;charset=utf-8,%C3%A4%", DataUrl("text/plain", b64encode(b"\xc3\xa4%").decode(), False)),
        ("data:image/svg+xml;utf8=,<svg/>", DataUrl("image/svg+xml", b64encode(b"<svg/>").decode(), False)),
    ],
)
def test_a_data_url_has_a_media_type_and_base64_data(text: str, expected: DataUrl) -> None:
    assert parse_data_url(text) == expected
    normalized = normalize_data_url(text)
    assert normalized is not None
    if expected.was_base64:
        assert normalized == text
    else:
        assert parse_data_url(normalized) == DataUrl(expected.media_type or "text/plain", expected.data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "data:",
        "data:image/png;base64",
        "data: 1, 2",
        "data: [1, 2]\nmore: 3",
        "data:hello, world",
        "data:text/plain;base64;x,AAAA",
        "https://example.com/data:image/png;base64,AAAA",
        "iVBORw0KGgo=",
        "data:" + "x" * 2000 + ",AAAA",
    ],
)
def test_other_text_is_no_data_url(text: str) -> None:
    assert parse_data_url(text) is None
    assert normalize_data_url(text) is None
    assert normalize_data(text, "Image/PNG") == DataUrl("image/png", text)


@given(st.binary(), st.sampled_from(["image/png", "application/octet-stream", "text/x-a+b.c"]))
def test_a_created_data_url_is_parsed_again(data: bytes, media_type: str) -> None:
    encoded = b64encode(data).decode()
    assert parse_data_url(to_data_url(encoded, media_type)) == DataUrl(media_type, encoded)
    assert decode_base64(encoded) == data


@given(st.text())
def test_no_text_raises(text: str) -> None:
    for value in (text, f"data:{text}", f"data:,{text}", f"data:text/plain;base64,{text}"):
        url = parse_data_url(value)
        assert (url is None) == (normalize_data_url(value) is None)
        is_base64(value)
        decode_text(value, "text/plain")
        sniff_base64_type(value)
        media_type_of_name(value)
        is_url(value)
        is_text_type(value)


class CountingText(str):
    """A text that counts the characters that slices copy."""

    __slots__ = ()
    copied = 0

    def __getitem__(self, key: object) -> str:
        result = super().__getitem__(key)  # type: ignore[index]
        CountingText.copied += len(result)
        return result


@pytest.mark.parametrize("size", [1000, 100_000])
def test_large_data_is_copied_once(size: int) -> None:
    text = CountingText("data:image/png;base64," + "A" * size)
    CountingText.copied = 0
    assert parse_data_url(text) == DataUrl("image/png", "A" * size)
    assert CountingText.copied <= size + 100
    CountingText.copied = 0
    assert normalize_data_url(text) is text
    assert CountingText.copied <= 100


def test_a_declared_media_type_takes_precedence() -> None:
    assert normalize_data("data:image/png;base64,AAAA", "image/JPEG") == DataUrl("image/jpeg", "AAAA")
    assert normalize_data("data:image/png;base64,AAAA") == DataUrl("image/png", "AAAA")
    assert normalize_data("AAAA") == DataUrl("", "AAAA")


def test_a_url_has_one_of_the_schemes() -> None:
    assert is_url("https://example.com/a.png")
    assert is_url("HTTP://example.com")
    assert not is_url("s3://bucket/key")
    assert is_url("S3://bucket/key", ("s3",))
    assert not is_url("https:/example.com")
    assert not is_url("a text that mentions https://example.com")


def test_base64_may_contain_white_space() -> None:
    assert decode_base64("iVBO\nRw0K\r\nGgo=") == PNG
    assert is_base64("")
    assert not is_base64("not base64!")
    assert not is_base64("YQ=")
    assert not is_base64("ä")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", ""),
        ("+/+/", "+/+/"),
        ("-_-_", "+/+/"),
        ("-_8=", "+/8="),
        ("-_8", "+/8="),
        ("YQ", "YQ=="),
        ("iVBO\nRw0K\r\nGgo=", "iVBO\nRw0K\r\nGgo="),
        ("iVBO\nRw0K\r\nGgo", "iVBO\nRw0K\r\nGgo="),
    ],
)
def test_base64_of_either_alphabet_has_a_standard_form(data: str, expected: str) -> None:
    assert to_standard_base64(data) == expected
    assert is_base64(expected)


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("text/plain", True),
        ("TEXT/Markdown; charset=utf-8", True),
        ("application/json", True),
        ("application/ld+json", True),
        ("image/svg+xml", True),
        ("application/pdf", False),
        ("", False),
    ],
)
def test_text_types(media_type: str, *, expected: bool) -> None:
    assert is_text_type(media_type) is expected


def test_a_file_of_text_is_decoded() -> None:
    assert decode_text("YcOk", "text/plain") == "aä"
    assert decode_text("data:text/csv;base64,YSxi", None) == "a,b"
    assert decode_text("data:text/plain,a%2Cb", None) == "a,b"
    assert decode_text("YcOk", "application/pdf") is None
    assert decode_text("YcOk", None) is None
    assert decode_text("/w==", "text/plain") is None
    assert decode_text("no base64", "text/plain") is None
    assert decode_text("", "text/plain") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.PDF", "application/pdf"),
        ("https://example.com/a/cat.jpeg?size=1.png#x", "image/jpeg"),
        ("s3://bucket/key.webp", "image/webp"),
        ("archive.tar.gz", None),
        (".png", None),
        ("png", None),
        ("https://example.com", None),
        ("", None),
    ],
)
def test_the_extension_gives_the_media_type(name: str, expected: str | None) -> None:
    assert media_type_of_name(name) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"%PDF-1.7", "application/pdf"),
        (b"", None),
    ],
)
def test_the_first_bytes_give_the_media_type(data: bytes, expected: str | None) -> None:
    assert sniff_media_type(data) == expected
    assert sniff_base64_type(b64encode(data + b"more data").decode()) == expected
    assert sniff_base64_type("not base64 at all") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.org/a.png", True),
        ("HTTP://example.org/a.png", True),
        ("data:image/png;base64,QQ==", True),
        ("data:image/svg+xml,%3Csvg/%3E", False),
        ("data:text/html;base64,QQ==", False),
        ("s3://bucket/a.png", False),
        ("QQ==", False),
        ("", False),
    ],
)
def test_an_image_source_is_an_address_or_a_base64_data_url(text: str, expected: bool) -> None:
    assert is_image_source(text) is expected
