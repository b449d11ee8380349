"""`StreamError.code`: what a provider's error means, in band and by HTTP status, of bytes and dicts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import wire_streams
from hypothesis import assume, given
from hypothesis import strategies as st

from streamkit import StreamError, StreamInterrupted, Turn, providers
from streamkit.providers.contract import error_rules
from streamkit.providers.contract.error_rules import ErrorRules, MessageRule
from streamkit.values.redaction import redact_message

#: One error a line: the provider, the HTTP status (None: within a stream), the body, and what it means.
ERRORS = [json.loads(line) for line in Path(__file__).with_name("error_bodies.jsonl").read_text("utf-8").splitlines()]
STATUSES = {
    400: "invalid_request",
    401: "unauthorized",
    402: "quota_exceeded",
    403: "unauthorized",
    404: "not_found",
    413: "context_overflow",
    422: "invalid_request",
    429: "rate_limited",
    500: None,
    502: None,
    503: "overloaded",
    529: "overloaded",
}


def _turns(provider: str, status: int | None, body: dict[str, Any]) -> list[Turn]:
    """Return the turns of an error: of an HTTP response, or within a stream as bytes and as a dict."""
    data = json.dumps(body).encode()
    if status is not None:
        return [
            wire_streams.run(provider, pieces, response=(status, {}))[0] for pieces in ([data], [data[:9], data[9:]])
        ]
    wire = providers.get(provider).package.rpartition(".")[2]
    inputs: tuple[list[Any], ...] = ([wire_streams.framed(wire, [body], done=False)], [body])
    return [wire_streams.run(provider, pieces)[0] for pieces in inputs]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: f"{case['provider']}-{case['status']}-{case['code']}")
def test_errors_are_classified(case: dict[str, Any]) -> None:
    for turn in _turns(case["provider"], case["status"], case["body"]):
        assert turn.error is not None
        assert turn.error.kind == "provider_error"
        assert (turn.error.code, turn.error.limit, turn.error.requested) == (
            case["code"],
            case["limit"],
            case["requested"],
        )


@pytest.mark.parametrize("provider", providers.names())
def test_the_status_alone_classifies_an_error(provider: str) -> None:
    for body in (b"", b"{}", b"<html>nginx</html>", b"upstream error"):
        for status, code in STATUSES.items():
            turn, _ = wire_streams.run(provider, [body] if body else [], response=(status, {}))
            assert turn.error is not None, (status, body)
            assert (turn.error.kind, turn.error.status, turn.error.code) == ("provider_error", status, code), body


def test_other_kinds_of_errors_have_no_code() -> None:
    for data in (b"<html>429</html>", b'data: {"choices": [', b""):
        turn, _ = wire_streams.run("openai_chat", [data])
        assert turn.error is not None
        assert turn.error.code is None


def test_a_raised_error_has_the_status_and_the_code_in_its_text() -> None:
    turn, _ = wire_streams.run(
        "openai_chat", [json.dumps({"error": {"message": "Slow down."}}).encode()], response=(429, {})
    )
    with pytest.raises(StreamInterrupted) as raised:
        turn.raise_for_error()
    assert str(raised.value) == "provider_error: Slow down. (HTTP status 429, rate_limited), from openai_chat"
    without_body, _ = wire_streams.run("openai_chat", [], response=(500, {}))
    assert without_body.error is not None
    assert str(StreamInterrupted(without_body.error)) == "provider_error: HTTP status 500"
    assert str(StreamInterrupted(StreamError("transport_error", "reset"))) == "transport_error: reset"


def test_a_plugins_own_code_is_kept() -> None:
    error = StreamError("provider_error", "No.", code="content_policy", status=429)
    assert ErrorRules().classify(error) is error


def test_hostile_error_objects_do_not_raise() -> None:
    deep: Any = "prompt is too long"
    for _ in range(2000):
        deep = {"error": deep}
    wide = {"error": [{"code": "x" * 10000, "message": "y" * 100000, "type": number} for number in range(50)]}
    for raw in (
        deep,
        wide,
        {"error": {1: 2, "code": {"code": True}, "n_ctx": "x" * 5000}},
        {"n_ctx": -1},
        [[[]]],
        None,
        7,
    ):
        for provider in ("openai_chat", "anthropic", "gemini", "cohere", "ollama", "bedrock_invoke"):
            classified = providers.get(provider).traits.classify_error(StreamError("provider_error", "x", raw=raw))
            assert classified.limit is None


PATTERNS = sorted(
    {rule.pattern for name in providers.names() for rule in providers.get(name).writer().error_rules.messages}
)


def _matches(pattern: str, message: str) -> bool:
    rules = ErrorRules(messages=(MessageRule("quota_exceeded", pattern),))
    return rules.classify(StreamError("provider_error", message)).code == "quota_exceeded"


@pytest.mark.parametrize("pattern", PATTERNS)
@given(data=st.data())
def test_every_message_of_a_pattern_is_found(pattern: str, data: st.DataObject) -> None:
    """A pattern is compiled only for a message that has a part of it."""
    message = data.draw(st.from_regex(re.compile(pattern, re.IGNORECASE)))
    assume(redact_message(message) == message)  # a key in it is masked before
    assert _matches(pattern, message)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"spent limit", "your SPENT LIMIT"),
        (r"spent limit", "\u017fpent l\u0131m\u0130t"),  # alike without regard to case
        (r"disk full", "dis\u212a full"),
        (r"no (?:more |)tokens?(?: left)?", "no token"),
        (r"a{2}bc?|[]x]yz", "aab"),
        (r"a{2}bc?|[]x]yz", "]yz"),
        (r"[(|]\)\|\[x", "|)|[x"),
        (r"over.{0,9}?the+ top$", "over and theee top"),
        (r"\d+", "5"),
        (r"(?:a|b)", "b"),
    ],
)
def test_syntax_is_no_part_of_a_message(pattern: str, message: str) -> None:
    assert re.search(pattern, message, re.IGNORECASE)
    assert _matches(pattern, message)


def test_an_error_does_not_compile_the_patterns_of_other_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_pattern(pattern: str) -> re.Pattern[str]:
        compiled.append(pattern)
        return re.compile(pattern, re.IGNORECASE)

    monkeypatch.setattr(error_rules, "_compile", compile_pattern)
    classify = providers.get("openai_chat").traits.classify_error
    assert classify(StreamError("provider_error", "You are sending too much", status=429)).code == "rate_limited"
    assert compiled == []
    message = "prompt is too long: 201130 tokens > 200000 maximum"
    found = classify(StreamError("provider_error", message, status=400))
    assert (found.code, found.limit, len(compiled)) == ("context_overflow", 200000, 1)


def test_rules_are_added_with_the_later_ones_first() -> None:
    base = ErrorRules(codes={"a": "rate_limited", "b": "not_found"}, messages=(MessageRule("invalid_request", "x"),))
    rules = base + ErrorRules(codes={"A": "overloaded"}, messages=(MessageRule("quota_exceeded", "x"),))
    assert rules.classify(StreamError("provider_error", "x")).code == "quota_exceeded"
    assert rules.classify(StreamError("provider_error", "y", raw={"code": "b"})).code == "not_found"
