"""What a tool returned, as history holds it: JSON that survives storage, and parts where it shows something."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import sqlite3
import uuid
from collections import UserList
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, model_serializer

from streamkit.history import Content, FileBlock, ImageBlock, TextBlock, ToolResponseBlock
from streamkit.history.tool_results import (
    decode_text_file,
    describe_unwritable,
    parse_result,
    result_parts,
    to_stored_part,
    to_stored_result,
)

PNG = b"\x89PNG\r\n\x1a\n\x00"
PNG_TEXT = "iVBORw0KGgoA"
PNG_URL = "data:image/png;base64,iVBORw0KGgoA"
IMAGE = {"type": "image", "data": PNG_URL}
PDF = {"type": "file", "media_type": "application/pdf", "data": "JVBERi0=", "url": None, "name": "report.pdf"}


class Weather(BaseModel):
    city: str
    degrees: float
    key: SecretStr = SecretStr("hidden")


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Entry(TypedDict):
    name: str


class Pair(NamedTuple):
    left: int
    right: str


class Colour(enum.Enum):
    RED = "red"


class Record(msgspec.Struct):
    name: str
    point: Point


class Thing:
    def __str__(self) -> str:
        return "a thing"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("I have no words")


class Broken(BaseModel):
    @model_serializer
    def _written(self) -> dict[str, Any]:
        raise KeyError("no")

    def __str__(self) -> str:
        return "broken"


class Array:
    """As numpy's arrays and numbers."""

    def tolist(self) -> list[int]:
        return [1, 2]


def stored_and_read(value: Any) -> Any:
    """What history holds of a value, after it was written and read."""
    kept = to_stored_result(value)
    assert to_stored_result(kept) == kept  # a run that was stored and resumed makes it again
    block = ToolResponseBlock(call_id="c", result=kept)
    content = Content(speaker="tool", blocks=[block])
    read = Content.model_validate_json(content.model_dump_json())
    assert read == content
    assert isinstance(read.blocks[0], ToolResponseBlock)
    return read.blocks[0].result


# ---------------------------------------------------------------- text and data


@pytest.mark.parametrize("value", ["", "text", 0, 7, 1.5, False, True, None, [], {}, [0, None, ""], {"a": {"b": []}}])
def test_json_data_is_unchanged(value: Any) -> None:
    kept = stored_and_read(value)
    assert kept == value
    assert type(kept) is type(value)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Weather(city="Oslo", degrees=-3.5), {"city": "Oslo", "degrees": -3.5, "key": "**********"}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Entry(name="a"), {"name": "a"}),
        (Pair(1, "b"), [1, "b"]),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (frozenset(), []),
        (datetime.datetime(2026, 11, 21, 8, 30, tzinfo=datetime.UTC), "2026-11-21T08:30:00Z"),
        (datetime.date(2026, 11, 21), "2026-11-21"),
        (datetime.timedelta(hours=1), "PT1H"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (pathlib.PurePosixPath("/srv/a"), "/srv/a"),
        (Record("r", Point(1, 2)), {"name": "r", "point": {"x": 1, "y": 2}}),
        ({"record": Record("r", Point(0, 0))}, {"record": {"name": "r", "point": {"x": 0, "y": 0}}}),
        (Array(), [1, 2]),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        (Thing(), "a thing"),
        ([Thing(), 1], ["a thing", 1]),
        (Mute(), "[an object of the type Mute]"),
        ({"of": Mute()}, {"of": "[an object of the type Mute]"}),
        ({"a": 1}.keys(), ["a"]),
        (range(3), [0, 1, 2]),
        (10**5000, "1" + "0" * 5000),
        ({"n": -(10**5000)}, {"n": "-1" + "0" * 5000}),
        (10**100_000, "[an integer of about 100000 digits]"),
        (Broken(), "broken"),
        (ValueError("no such city"), "no such city"),
        (float("nan"), "NaN"),
        ({"high": float("inf"), "low": [float("-inf")]}, {"high": "Infinity", "low": ["-Infinity"]}),
        ("\ud83d\ude00", "😀"),
        ("\ud83d", "�"),
        (2**70, 2**70),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_without_a_json_form_are_converted(value: Any, kept: Any) -> None:
    assert stored_and_read(value) == kept


def test_a_reference_of_a_value_to_itself_becomes_a_remark() -> None:
    value: list[Any] = [1]
    value.append(value)
    mapping: dict[str, Any] = {"list": value}
    mapping["self"] = mapping
    assert stored_and_read(value) == [1, "[the object that contains this]"]
    assert stored_and_read(mapping)["self"] == "[the object that contains this]"
    assert stored_and_read([mapping, mapping])[1] == stored_and_read(mapping)  # one object twice is no cycle


class Named:
    """The form of asyncpg's rows, and of pandas' tables: names and items."""

    def keys(self) -> list[str]:
        return ["a", "b"]

    def __getitem__(self, name: str) -> Any:
        return {"a": 1, "b": Point(1, 2)}[name]


class Row(Sequence[Any]):
    """The form of SQLAlchemy's rows."""

    def __getitem__(self, index: Any) -> Any:
        return [1, "x"][index]

    def __len__(self) -> int:
        return 2


def sqlite_row() -> sqlite3.Row:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        row: sqlite3.Row = database.execute("select 1 as a, 'x' as b").fetchone()
        return row


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Named(), {"a": 1, "b": {"x": 1, "y": 2}}),
        (Row(), [1, "x"]),
        ([Row(), Named()], [[1, "x"], {"a": 1, "b": {"x": 1, "y": 2}}]),
        (UserList([1, {2}]), [1, [2]]),
        (sqlite_row(), {"a": 1, "b": "x"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rows_and_sequences_become_data(value: Any, kept: Any) -> None:
    assert stored_and_read(value) == kept
    assert describe_unwritable(value) is None


class Plain:
    pass


class BrokenRow(Row):
    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError("the cursor is closed")


def numbers() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "description"),
    [
        (Plain(), "Plain"),
        ([1, {"a": Plain()}], "Plain"),
        ((Plain(), Thing()), "Plain"),
        (Mute(), "Mute"),
        (numbers(), "generator"),
        (map(str, [1]), "map"),
        (BrokenRow(), "BrokenRow"),
        (len, "builtin_function_or_method"),
        (Plain, "type"),
        ([TextBlock(text="a"), Plain()], "Plain"),
    ],
)
def test_an_object_without_data_or_text_is_described(value: Any, description: str) -> None:
    assert describe_unwritable(value) == f"an object of the type {description}"
    assert "0x" not in json.dumps(stored_and_read(value))  # an address in memory


def test_looking_for_unwritable_objects_takes_nothing_from_a_generator() -> None:
    rows = numbers()
    assert describe_unwritable({"rows": rows}) is not None
    assert list(rows) == [1]


@pytest.mark.parametrize("value", [None, "a", 1, Thing(), Point(1, 2), {"a": [Colour.RED]}, b"x", {1}, ValueError("x")])
def test_values_with_a_json_form_or_a_text_are_not_described(value: Any) -> None:
    assert describe_unwritable(value) is None


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "value",
    ["x" * 1000, "😀" * 1000, {"a": ["x" * 1000]}, ["x" * 300] * 3, b"x" * 1000],
    ids=lambda value: type(value).__name__,
)
def test_a_long_result_is_shortened_in_its_middle(value: Any) -> None:
    stored = to_stored_result(value, limit=400)
    assert isinstance(stored, str)
    assert len(stored) <= 400
    whole = to_stored_result(value)
    text = whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    head, _, rest = stored.partition("\n... [")
    count, _, tail = rest.partition(" characters omitted] ...\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + int(count) + len(tail) == len(text)
    assert to_stored_result(value, limit=5000) == whole


def test_the_limit_of_a_result_with_images_is_for_its_texts() -> None:
    value = ["a" * 300, ImageBlock(data=PNG_URL), "b" * 300, "c" * 300]
    stored = to_stored_result(value, limit=400)
    assert stored[0] == {"type": "text", "text": "a" * 300}
    assert stored[1] == IMAGE
    assert "characters omitted" in stored[2]["text"]
    assert stored[3] == {"type": "text", "text": "... [300 characters omitted]"}
    assert to_stored_result(value, limit=900) == to_stored_result(value)


@pytest.mark.parametrize("depth", [180, 181, 230, 400, 100_000])
def test_deep_data_can_be_stored_and_read_too(depth: int) -> None:
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    kept = stored_and_read(value)
    whole = kept
    for _ in range(180 if depth > 180 else 0):
        (kept,) = kept
    if 180 < depth <= 230:
        assert kept == "[" * (depth - 180) + '"core"' + "]" * (depth - 180)
    Content.model_validate_json(
        Content(speaker="tool", blocks=[ToolResponseBlock(call_id="c", result={"more": [whole]})]).model_dump_json()
    )


def test_a_value_is_not_changed_and_not_shared() -> None:
    value = {"list": [1]}
    kept = to_stored_result(value)
    value["list"].append(2)
    assert kept == {"list": [1]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.decimals(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    )
)
def test_anything_can_be_stored_and_read(value: Any) -> None:
    stored_and_read(value)


# ---------------------------------------------------------------- bytes


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (b"", ""),
        (b"total 0\n", "total 0\n"),
        ("Tromsø".encode(), "Tromsø"),
        (bytearray(b"abc"), "abc"),
        (memoryview(b"abc"), "abc"),
        (b"\xff\xfe\x00", "//4A"),
        ({"body": b"abc"}, {"body": "abc"}),
        ({"body": b"\xff"}, {"body": "/w=="}),
        (PNG, [IMAGE]),
        (b"\xff\xd8\xff\xe0", [{"type": "image", "data": "data:image/jpeg;base64,/9j/4A=="}]),
        (b"GIF89a", [{"type": "image", "data": "data:image/gif;base64,R0lGODlh"}]),
        (b"RIFF\0\0\0\0WEBP", [{"type": "image", "data": "data:image/webp;base64,UklGRgAAAABXRUJQ"}]),
        (b"%PDF-", [{"type": "file", "media_type": "application/pdf", "data": "JVBERi0=", "url": None, "name": None}]),
    ],
)
def test_bytes_are_converted_by_their_content(value: Any, kept: Any) -> None:
    assert stored_and_read(value) == kept


# ---------------------------------------------------------------- blocks


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (TextBlock(text="hello"), "hello"),
        ([TextBlock(text="a"), "b"], "a\nb"),
        ([TextBlock(text="a"), {"n": 1}, 0], 'a\n{"n":1}\n0'),
        (ImageBlock(data=PNG_URL), [IMAGE]),
        (ImageBlock(data=PNG_TEXT), [IMAGE]),
        (ImageBlock(data="https://example.org/a.png"), [{"type": "image", "data": "https://example.org/a.png"}]),
        (FileBlock(media_type="application/pdf", data="JVBERi0=", name="report.pdf"), [PDF]),
        (FileBlock(media_type="application/pdf", data="%PDF-", name="report.pdf"), [PDF]),
        (["Page 1", ImageBlock(data=PNG_URL)], [{"type": "text", "text": "Page 1"}, IMAGE]),
        (("Page 1", ImageBlock(data=PNG_URL)), [{"type": "text", "text": "Page 1"}, IMAGE]),
        ([{"n": 1}, ImageBlock(data=PNG_URL)], [{"type": "text", "text": '{"n":1}'}, IMAGE]),
        (
            ["Front", PNG, "Back", PNG],
            [{"type": "text", "text": "Front"}, IMAGE, {"type": "text", "text": "Back"}, IMAGE],
        ),
        ([[ImageBlock(data=PNG_URL), "a"], TextBlock(text="b")], [IMAGE, *({"type": "text", "text": t} for t in "ab")]),
        ([ImageBlock(data=PNG_URL, metadata={"page": 2})], [{**IMAGE, "metadata": {"page": 2}}]),
    ],
)
def test_blocks_become_parts(value: Any, kept: Any) -> None:
    assert stored_and_read(value) == kept


def test_parts_are_read_as_the_original_blocks() -> None:
    blocks = [
        TextBlock(text="Page 1"),
        ImageBlock(data=PNG_URL, metadata={"page": 1}),
        FileBlock(media_type="application/pdf", data="JVBERi0=", name="report.pdf"),
        FileBlock(url="https://example.org/a", media_type=None),
    ]
    assert result_parts(stored_and_read(blocks)) == blocks
    assert [to_stored_part(block) for block in blocks] == to_stored_result(blocks)


# ---------------------------------------------------------------- parts of other makers


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "image", "data": PNG_TEXT, "mimeType": "image/png", "annotations": None}, ImageBlock(data=PNG_URL)),
        ({"type": "image", "source": {"type": "url", "url": "https://e.org/a"}}, ImageBlock(data="https://e.org/a")),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_TEXT}},
            ImageBlock(data=PNG_URL),
        ),
        ({"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}}, ImageBlock(data=PNG_URL)),
        ({"type": "image_url", "image_url": PNG_URL}, ImageBlock(data=PNG_URL)),
        ({"type": "input_image", "image_url": PNG_URL, "detail": "auto"}, ImageBlock(data=PNG_URL)),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}},
            FileBlock(media_type="application/pdf", data="JVBE", name="a.pdf"),
        ),
        ({"type": "input_file", "file_url": "https://e.org/a.pdf"}, FileBlock(url="https://e.org/a.pdf")),
        (
            {"type": "document_url", "document_url": "https://e.org/a.pdf", "document_name": "a"},
            FileBlock(url="https://e.org/a.pdf", name="a"),
        ),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}, "title": "t"},
            FileBlock(media_type="text/plain", data="aGk=", name="t"),
        ),
        ({"type": "audio", "data": "UklG", "mimeType": "audio/wav"}, FileBlock(media_type="audio/wav", data="UklG")),
        (
            {"type": "resource", "resource": {"uri": "file:///a/b.zip", "mimeType": "application/zip", "blob": "UEs="}},
            FileBlock(media_type="application/zip", data="UEs=", name="b.zip"),
        ),
        (
            {"type": "resource", "resource": {"uri": "s://x", "mimeType": "image/png", "blob": PNG_TEXT}},
            ImageBlock(data=PNG_URL),
        ),
    ],
)
def test_parts_of_other_formats_are_read(part: dict[str, Any], block: Any) -> None:
    assert result_parts([{"type": "text", "text": "x"}, part]) == [TextBlock(text="x"), block]
    assert to_stored_result([part]) == [part]  # they stay as they came


def test_mcp_texts_next_to_an_image_are_texts() -> None:
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    read = {"type": "resource", "resource": {"uri": "file:///a", "text": "what it says"}}
    assert result_parts([link, read, IMAGE]) == [
        TextBlock(text='{"type":"resource_link","uri":"file:///a","name":"a"}'),
        TextBlock(text="what it says"),
        ImageBlock(data=PNG_URL),
    ]


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        {},
        IMAGE,
        [],
        [1, 2],
        [{"type": "text", "text": "x"}],
        [{"type": "image"}],
        [{"type": "image", "data": "no base64, no address"}],
        [{"type": "image", "data": PNG_URL, "width": 3, "height": 4}],
        [{"type": "file", "name": "a.txt"}, {"type": "file", "name": "b.txt"}],
        # https://docs.github.com/rest/repos/contents: a directory
        [
            {
                "type": "file",
                "size": 625,
                "name": "a.rb",
                "path": "lib/a.rb",
                "sha": "f",
                "url": "https://api.github.com/a",
            }
        ],
        [{"type": "file", "name": "a", "url": "https://example.org/a"}],
        [IMAGE, {"type": "shape"}],
        [IMAGE, 3],
        [{"type": ["image"]}],
    ],
)
def test_data_is_not_mistaken_for_parts(data: Any) -> None:
    assert result_parts(data) is None


def test_texts_alone_are_parts_with_texts_alone() -> None:
    assert result_parts([{"type": "text", "text": "x"}], texts_alone=True) == [TextBlock(text="x")]
    assert result_parts([], texts_alone=True) is None


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["type", "text", "data", "source", "image_url", "file", "resource", "url", "media_type", "mimeType"]
            ),
            st.sampled_from(["image", "file", "document", "audio", "resource", PNG_TEXT, PNG_URL])
            | st.none()
            | st.dictionaries(st.sampled_from(["url", "data", "media_type", "blob", "uri"]), st.text() | st.none()),
        )
    )
)
@example([{"type": "image", "data": PNG_TEXT, "mimeType": "image/png"}])
def test_no_list_raises(result: Any) -> None:
    for part in result_parts(result) or []:
        assert isinstance(part, (TextBlock, ImageBlock, FileBlock))


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (FileBlock(media_type="text/csv; charset=utf-8", data="YSxi"), "a,b"),
        (FileBlock(data="data:text/plain;base64,aGk="), "hi"),
        (FileBlock(media_type="application/json", data="e30="), "{}"),
        (FileBlock(media_type="image/svg+xml", data=base64.b64encode(b"<svg/>").decode()), "<svg/>"),
        (FileBlock(media_type="text/plain", data="/w=="), None),
        (FileBlock(media_type="text/plain", data="!"), None),
        (FileBlock(media_type="text/plain", url="https://example.org/a.txt"), None),
        (FileBlock(media_type="application/pdf", data="JVBE"), None),
        (FileBlock(data="aGk="), None),
    ],
)
def test_a_file_of_text_can_be_read(block: FileBlock, text: str | None) -> None:
    assert decode_text_file(block) == text


def test_the_result_in_a_message_is_a_text_or_parts_or_data() -> None:
    text = {"type": "text", "text": "a"}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}
    assert parse_result([text, {"type": "input_text", "text": "b"}]) == "a\nb"
    assert parse_result([text, image]) == [text, {"type": "image", "data": "data:image/png;base64,QQ=="}]
    for data in ("a", None, {"a": 1}, [], [1], [text, {"type": "widget"}]):
        assert parse_result(data) is data
