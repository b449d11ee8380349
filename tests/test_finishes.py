"""The table of finish reasons: total, and nothing is executable that no row allows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from streamkit import finishes
from streamkit.calls import Finish, FinishReason
from streamkit.finishes import FINISH_ROWS, FinishRow, finish_row

REASONS = get_args(FinishReason)
each = pytest.mark.parametrize("reason", REASONS)


def test_every_neutral_reason_has_a_row() -> None:
    assert set(FINISH_ROWS) == set(REASONS)


def test_a_reason_without_a_row_is_an_error_at_import() -> None:
    source = Path(finishes.__file__).read_text("utf-8")
    assert source.count('"pause": FinishRow(') == 1
    broken = re.sub(r'    "pause": FinishRow\(.*\n', "", source)
    with pytest.raises(TypeError, match=r"streamkit\.finishes\.FINISH_ROWS has no row for pause: add one"):
        exec(compile(broken, "finishes.py", "exec"), {"__name__": "streamkit.finishes"})  # noqa: S102 - our own source


def test_calls_run_only_after_a_reason_that_says_so() -> None:
    assert not FinishRow().runs_calls
    assert not finish_row(None).runs_calls
    invented: Any = "invented_by_a_third_party"
    assert not finish_row(Finish(invented)).runs_calls
    assert {reason for reason in REASONS if FINISH_ROWS[reason].runs_calls} == {"stop", "tool_calls", "length", "other"}


def test_each_reason_that_forbids_calls_has_its_own_sentence_for_the_model() -> None:
    sentences = [row.not_run_because for row in FINISH_ROWS.values() if not row.runs_calls]
    assert len(set(sentences)) == len(sentences)


@each
def test_an_error_runs_no_calls(reason: FinishReason) -> None:
    row = FINISH_ROWS[reason]
    assert not (row.is_error and row.runs_calls)


@each
def test_each_reason_is_described_in_the_rules(reason: FinishReason) -> None:
    rules = (Path(__file__).parent.parent / "docs/rules.md").read_text("utf-8")
    section = rules.split("### Finish and confirmation\n")[1].split("\n### ")[0]
    assert f"`{reason}`" in section.split("`turn.finish` is `Finish(reason, raw)`")[1].split(":\n")[0]
