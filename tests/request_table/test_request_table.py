"""The table of requests: every field and part of the installed SDKs, at every other wire, none lost unsaid."""

from __future__ import annotations

from typing import Any

import pytest

from request_table import table
from request_table.observe import LOST, statuses_of
from request_table.sdk_types import versions
from request_table.wires import WIRES, rows_of
from streamkit import parse_request, render_request

#: What is written in another field of the same wire: ``max_completion_tokens``.
READ_AS_ANOTHER = {"max_tokens"}
WRITE = "write it anew (cd tests && python -m request_table), and read the difference"


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return table.read_data()


@pytest.mark.parametrize("wire", WIRES)
def test_the_table_has_the_fields_of_the_pinned_sdk(wire: str, data: dict[str, Any]) -> None:
    """A change of a pin needs a new table; with another version installed, new fields are the reason of a skip."""
    name, _, made_from = data[wire]["sdk"].partition(" ")
    assert f"{name}=={made_from} " in (table.ROOT / ".ci" / "requirements.txt").read_text(), WRITE
    fields, known = rows_of(wire).keys(), data[wire]["fields"].keys()
    if versions()[wire] != data[wire]["sdk"]:
        pytest.skip(f"{versions()[wire]} is installed, not {made_from}: new {sorted(fields - known)}")
    assert fields == known, WRITE


@pytest.mark.parametrize("wire", WIRES)
def test_what_happens_to_each_field_is_what_the_table_says(wire: str, data: dict[str, Any]) -> None:
    found, known = statuses_of(wire), data[wire]["fields"]
    lost = [(path, target) for path, at in found.items() for target, status in at.items() if status == LOST]
    assert lost == []
    differing = {path: at for path, at in found.items() if path in known and at != known[path]}
    assert differing == {}, WRITE


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_goes_back_to_its_own_wire_with_each_field(wire: str) -> None:
    for path, (row, _) in rows_of(wire).items():
        changes: list[str] = []
        body = render_request(parse_request(row, wire, model="m", stream=True), wire, changes=changes)
        for name in row.keys() - {"model", "stream", "tools", "messages", "input", "contents"}:
            assert name in body or changes or name in READ_AS_ANOTHER, path


def test_the_page_is_that_of_the_data(data: dict[str, Any]) -> None:
    assert table.PAGE.read_text() == table.page_text(data), WRITE
    assert table.DATA.read_text() == table.data_text(data), WRITE
