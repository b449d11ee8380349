"""Secrets are masked in errors and warnings, and ordinary sentences stay as they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit import Turn
from streamkit.calls import StreamError, StreamWarning
from streamkit.errors import StreamInterrupted, UnsupportedContent
from streamkit.events import Failed, to_json
from streamkit.history import Content, FileBlock, ImageBlock
from streamkit.providers import render
from streamkit.values import redaction
from streamkit.values.redaction import redact, redact_secrets, redact_value

KEY = "PLANTED0123456789abcdef"

#: Texts that contain ``KEY`` in a form that shows it to be a secret.
SECRETS = [
    f"Client error '401' for url 'https://example.org/v1:streamGenerateContent?alt=sse&key={KEY}'",
    f"https://example.org/?api_key={KEY}&x=1",
    f"https://example.org/?x=1&access_token={KEY}",
    f"https://example.org/?token={KEY}#part",
    f"https://example.org/?sig={KEY}&se=2026",
    f"https://example.org/a?Signature={KEY}&Key-Pair-Id=K",
    f"https://bucket.s3.amazonaws.com/a?X-Amz-Credential={KEY}%2F20260101&X-Amz-Signature={KEY}",
    f"https://storage.googleapis.com/a?X-Goog-Signature={KEY}",
    f"https://user:{KEY}@example.org/v1",
    f"http://{KEY}@example.org",
    f"https://user:pass@{KEY}@example.org",
    f"https://login.example/?next=https%3A%2F%2Fexample.org%3Fkey%3D{KEY}%26a",
    f'{{"url": "https://example.org/?a=1\\u0026key={KEY}"}}',
    f"Authorization: Bearer {KEY}",
    f"Headers({{'authorization': 'Bearer {KEY}', 'x': '1'}})",
    f"[(b'x-api-key', b'{KEY}')]",
    f"x-goog-api-key: {KEY}",
    f"api-key={KEY}",
    f"Illegal header value b'Bearer {KEY}'",
    f"Basic {KEY}==",
    f"Incorrect API key provided: {KEY}.",
    f'"api_key": "{KEY}"',
    f"aws_secret_access_key={KEY}",
    f"password={KEY}",
    f"the key sk-{KEY} is not valid",
    f"sk-ant-api03-{KEY}",
    f"sk-proj-{KEY}",
    f"AIza{KEY}",
    f"gsk_{KEY}",
    f"hf_{KEY}",
    f"xai-{KEY}",
    f"nvapi-{KEY}",
    f"ghp_{KEY}",
    f"AKIA{KEY}",
    f"eyJhbGciOiJIUzI1NiJ9.{KEY}.{KEY}",
]

#: Sentences of providers and of this package that contain no secret.
ORDINARY = [
    "Bearer authentication is required",
    "basic information is missing",
    "api_key: field required",
    "Incorrect API key provided: sk-ab***yz",
    "max_tokens: 4096 is too large, key=5",
    'unexpected token: "abc1234567"',
    "risk-management-of-things, task-1234567890",
    "https://example.org/v1/messages?alt=sse&version=2024-10-21 returned 404",
    "write to ida@example.org",
    "the URL http://localhost:8000/v1 is not reachable: all 3 attempts failed",
    "the call 'hist_tool_abcdefghijklmnopqrstuvwx' has the key 'index_mismatch'",
    "rate limit of 30,000 input tokens per minute (model: gpt-5-2026-01-01)",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_masked(text: str) -> None:
    masked = redact(text)
    assert KEY not in masked
    assert "***" in masked
    assert redact(masked) == masked


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_sentence_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", ["url_parameter", "user_info", "header", "field", "scheme", "key"])
@given(data=st.data())
def test_everything_that_a_pattern_matches_is_masked(name: str, data: st.DataObject) -> None:
    """A pattern is compiled only for a text that may match it."""
    pattern: re.Pattern[str] = getattr(redaction._patterns(), name)
    match = pattern.search(data.draw(st.from_regex(pattern, alphabet=st.characters(codec="ascii"))))
    if match is not None:  # what is generated may break a condition on what follows
        assert "***" in redact(match[0])


@given(texts=st.lists(st.sampled_from([*SECRETS, *ORDINARY]), min_size=8, max_size=24), section=st.integers(16, 200))
def test_a_long_text_is_masked_in_sections_as_it_is_at_once(texts: list[str], section: int) -> None:
    text, pauses = "\n".join(texts), 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_SECTION", section)
        masked = redact(text, pause)
    assert masked == redact(text)
    assert pauses >= len(masked) // (2 * section)


def test_a_secret_of_any_length_is_masked_across_sections() -> None:
    text = "x" * 65_000 + f" Authorization: Bearer {'a1' * 50_000} y?key={KEY * 4000}&z=1 " + "x" * 70_000
    pauses: list[None] = []
    masked = redact(text, lambda: pauses.append(None))
    assert masked == redact(text) == "x" * 65_000 + " Authorization: *** y?key=***&z=1 " + "x" * 70_000
    assert pauses


@given(data=st.data())
def test_every_name_of_a_secret_is_known(data: st.DataObject) -> None:
    pattern = redaction._patterns().secret_name
    name = data.draw(st.from_regex(pattern, fullmatch=True, alphabet=st.characters(codec="ascii")))
    is_fact = name.lower() in ("key", "policy", "session", "pass", "auth") or len(name) > 64
    assert redact_value({name: "x"}) == {name: "x" if is_fact else "***"}


def test_an_ordinary_error_compiles_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = redaction._Patterns()
    monkeypatch.setattr(redaction, "_patterns", lambda: patterns)
    error = StreamError("provider_error", "slow down", raw={"error": {"message": "slow down", "type": "requests"}})
    assert (error.message, vars(patterns)) == ("slow down", {})


def test_the_rest_of_a_text_stays() -> None:
    assert redact("GET https://u:p@example.org:80/v1?a=b&key=c&d=e: refused") == (
        "GET https://***@example.org:80/v1?a=b&key=***&d=e: refused"
    )


def test_plain_data_is_masked_in_texts_names_and_secret_fields() -> None:
    data = {
        "error": {"message": f"no: sk-{KEY}", "api_key": KEY, "param": "key", "key": "model", "code": 401, "x": None},
        f"sk-{KEY}": [1, {"Authorization": KEY}, ["x-api-key", KEY]],
    }
    assert redact_value(data) == {
        "error": {"message": "no: ***", "api_key": "***", "param": "key", "key": "model", "code": 401, "x": None},
        "***": [1, {"Authorization": "***"}, ["x-api-key", "***"]],
    }


@pytest.mark.parametrize(
    "value", ["a" * 70_000, {"a" * 70_000: [1, "b"], "c": "d"}, ["token=abcdefghij1 " * 9_000, "e"]]
)
def test_data_that_was_cut_is_not_cut_again(value: object) -> None:
    cut = redact_value(value)
    assert "[cut]" in str(cut)
    assert redact_value(cut) == cut


def test_data_that_is_nested_too_deeply_is_left_out() -> None:
    data: object = KEY
    for _ in range(5000):
        data = [data]
    assert KEY not in str(redact_value(data))


# ---------------------------------------------------------------- channels


@pytest.mark.parametrize("text", SECRETS)
def test_what_a_transport_raises_is_masked_in_every_channel(text: str) -> None:
    turn = Turn("openai_chat")
    events = turn.close(ConnectionError(text))
    assert turn.error is not None
    with pytest.raises(StreamInterrupted) as raised:
        turn.raise_for_error()
    shown = [turn.error, turn.to_dict(), turn.warnings, events, *map(to_json, events), raised.value, repr(raised.value)]
    assert KEY not in " ".join(map(str, shown))
    assert any(isinstance(event, Failed) for event in events)


def test_a_transport_error_after_the_end_is_masked_in_the_warning() -> None:
    turn = Turn("anthropic")
    turn.feed({"type": "message_start", "message": {"id": "m", "content": []}})
    turn.feed({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    events = turn.close(ConnectionError(SECRETS[0]))
    assert [warning.code for warning in turn.warnings] == ["transport_error"]
    assert KEY not in f"{turn.warnings} {events} {turn.to_dict()}"


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("provider", ["openai_chat", "anthropic", "gemini", "ollama", "cohere", "openai_responses"])
def test_a_key_that_a_server_repeats_is_masked(provider: str, status: int) -> None:
    message = f"Incorrect API key provided: {KEY}"
    body = f'{{"error": {{"message": "{message}", "headers": {{"x-api-key": "{KEY}"}}, "type": "auth"}}}}'.encode()
    for data in (body, f"<html>{message}</html>".encode(), f"event: error\ndata: {body.decode()}\n\n".encode()):
        turn = Turn(provider)
        turn.response(status)
        events = [*turn.feed(data), *turn.close()]
        assert turn.error is not None
        assert KEY not in f"{turn.error} {turn.warnings} {events} {turn.to_dict()}"


def test_errors_and_warnings_of_any_source_are_masked() -> None:
    """Also those that third-party providers make: the values themselves mask."""
    assert KEY not in repr(StreamError("provider_error", SECRETS[0], raw={"password": KEY}))
    assert KEY not in repr(StreamWarning("mine", SECRETS[0]))


@pytest.mark.parametrize(
    "provider", ["openai_chat", "anthropic", "gemini", "bedrock_converse", "ollama", "cohere", "openai_responses"]
)
def test_a_refused_address_is_masked(provider: str) -> None:
    for scheme in ("ftp", "https"):
        address = f"{scheme}://user:{KEY}@example.org/{'a' * 90}.bin?X-Amz-Signature={KEY}"
        for block in (ImageBlock(data=address), FileBlock(url=address, media_type="application/x")):
            changes: list[str] = []
            try:
                render([Content.human("see", block)], provider, changes=changes)
            except UnsupportedContent as error:
                changes.append(str(error))
            assert KEY not in str(changes)


@pytest.mark.parametrize("key", ["", "k", "ollama", "EMPTY"])  # what local servers are given
def test_a_placeholder_instead_of_a_key_is_not_masked(key: str) -> None:
    text = "streamkit gateway: ollama at http://localhost:11434 refused the key EMPTY"
    assert redact_secrets(text, [key]) == text
    assert redact_secrets(f"refused {KEY}, {KEY}", [key, KEY]) == "refused ***, ***"
