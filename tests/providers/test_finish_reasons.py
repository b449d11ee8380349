"""The finish reasons that encoders write: each neutral reason has a name on every wire."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from streamkit import Turn, providers
from streamkit.calls import Finish, FinishReason
from streamkit.history import Content
from streamkit.providers.decoding.finish_reasons import (
    KNOWN_FINISH_REASONS,
    invert_finish_reasons,
    is_reason,
    normalize_finish_reason,
    read_finish_reason,
)

REASONS: tuple[FinishReason, ...] = get_args(FinishReason)


def test_the_first_name_of_a_reason_is_its_inverse() -> None:
    table: dict[str, FinishReason] = {"END": "stop", "STOP_WORD": "stop", "FULL": "length"}
    names = invert_finish_reasons(table)
    assert (names["stop"], names["length"]) == ("END", "FULL")


def test_the_inverse_covers_every_neutral_reason() -> None:
    assert tuple(invert_finish_reasons({})) == REASONS


def test_a_preferred_name_replaces_the_first_of_the_table() -> None:
    names = invert_finish_reasons({"END": "stop", "FULL": "length"}, preferred={"stop": "DONE", "tool_calls": "DONE"})
    assert (names["stop"], names["tool_calls"], names["length"]) == ("DONE", "DONE", "FULL")


def test_a_reason_without_a_name_keeps_its_neutral_name() -> None:
    assert invert_finish_reasons({"END": "stop"})["pause"] == "pause"


def test_a_reason_without_a_name_gets_the_default_name() -> None:
    names = invert_finish_reasons({"END": "stop"}, default="OTHER")
    assert (names["stop"], names["pause"], names["other"]) == ("END", "OTHER", "OTHER")


@pytest.mark.parametrize(
    "spelling",
    [
        "max_tokens",
        "MAX_TOKENS",
        "MaxTokens",
        "maxTokens",
        "max-tokens",
        "Max Tokens",
        "FinishReason.MAX_TOKENS",
        "FINISH_REASON_MAX_TOKENS",
        "types.FinishReason.maxTokens",
        " max_tokens\n",
    ],
)
def test_every_spelling_of_a_name_is_one_name(spelling: str) -> None:
    assert normalize_finish_reason(spelling) == "max_tokens"
    assert read_finish_reason(spelling, {}) == (spelling, "length")


@pytest.mark.parametrize("spelling", ["", ".", "reason_", "\ud83d", "x" * 100_000])
def test_any_text_is_a_reason(spelling: str) -> None:
    assert read_finish_reason(spelling, {}) == (spelling, "other")


def test_the_own_table_has_priority_over_the_names_of_other_vendors() -> None:
    assert read_finish_reason("STOP", {"stop": "pause"}) == ("STOP", "pause")


def test_known_names_are_normalized() -> None:
    for name, reason in KNOWN_FINISH_REASONS.items():
        assert normalize_finish_reason(name) == name
        assert read_finish_reason(name.upper(), {}) == (name.upper(), reason)


@pytest.mark.parametrize("provider", ["anthropic", "bedrock_converse", "bedrock_invoke", "gemini"])
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "stop"),
        ("end_turn", "stop"),
        ("stop", "stop"),
        ("FinishReason.STOP", "stop"),
        ("tool-calls", "stop"),  # without a call
        ("MAX_TOKENS", "length"),
        ("length", "length"),
        ("maxTokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("SAFETY", "content_filter"),
        ("guardrailIntervened", "content_filter"),
        ("content_filter", "content_filter"),
        ("malformed_tool_use", "error"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("Refusal", "refusal"),
        ("pause-turn", "pause"),
        ("brand_new", "other"),
    ],
)
def test_reasons_of_other_vendors_are_read(provider: str, raw: str, reason: str) -> None:
    assert _finish(provider, raw) == Finish(reason, raw)  # type: ignore[arg-type]


def _finish(provider: str, raw: str) -> Finish | None:
    """Return the finish of a stream with a reason."""
    chunks: dict[str, list[dict[str, Any]]] = {
        "anthropic": [{"type": "message_delta", "delta": {"stop_reason": raw}}],
        "bedrock_converse": [{"messageStop": {"stopReason": raw}}],
        "bedrock_invoke": [{"type": "message_delta", "delta": {"stop_reason": raw}}],
        "gemini": [{"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": raw}]}],
    }
    turn = Turn(provider, turn_key="k")
    for chunk in chunks[provider]:
        turn.feed(chunk)
    turn.close()
    return turn.finish


@pytest.mark.parametrize("name", providers.names())
def test_every_encoder_writes_every_finish_reason(name: str) -> None:
    content = Content.ai("Hello.")
    for reason in REASONS:
        turn = Turn(name, turn_key="turn-1")
        for frame in providers.get(name).emit(content, response_id="r1", model="m", finish=reason):
            turn.feed(frame)
        turn.close()
        assert turn.text == "Hello.", reason
        assert turn.error is None or reason == "error"
        if reason in ("stop", "length"):  # every wire has a name for these
            assert turn.finish is not None, reason
            assert turn.finish.reason == reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "stop"),
        ("Stop", "stop"),
        ("end-turn", "stop"),
        ("endTurn", "stop"),
        ("FinishReason.STOP", "stop"),
        ("FINISH_REASON_MAX_TOKENS", "length"),
        ("REASON_MAX_LEN", "length"),
        ("MaxTokens", "length"),
        ("max output tokens", "length"),
        ("tool-calls", "tool_calls"),
        ("TOOL_USE", "tool_calls"),
        ("GUARDRAIL_INTERVENED", "content_filter"),
        ("guardrailIntervened", "content_filter"),
        ("SAFETY", "content_filter"),
        ("Recitation", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("eos", "stop"),
        ("content_filter: RECITATION", "content_filter"),
        ("content_filter: OTHER", "content_filter"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "error"),
        ("something new: MAX_TOKENS", "length"),
        ("something: new", "other"),
        ("something new", "other"),
        ("x" * 100_000, "other"),
    ],
)
def test_a_name_of_any_service_is_read_in_any_spelling(raw: str, reason: str) -> None:
    assert read_finish_reason(raw, {}) == (raw, reason)


def test_the_own_table_of_a_provider_has_priority() -> None:
    assert read_finish_reason("Safety", {"SAFETY": "refusal"}) == ("Safety", "refusal")
    assert read_finish_reason("SAFETY", {"SAFETY": "refusal"}) == ("SAFETY", "refusal")


@pytest.mark.parametrize("raw", [None, "", "null", "NULL", "None", "FINISH_REASON_UNSPECIFIED", 0])
def test_some_values_are_no_reason(raw: Any) -> None:
    assert not is_reason(raw)


@pytest.mark.parametrize("provider", ["anthropic", "bedrock_converse", "bedrock_invoke", "gemini"])
def test_no_wire_finishes_for_a_value_that_is_no_reason(provider: str) -> None:
    assert _finish(provider, "null") != Finish("other", "null")


def test_a_number_is_another_reason() -> None:
    assert is_reason(7)
    assert read_finish_reason(7, {}) == (7, "other")
