"""``streamkit convert``: one provider's thread in another's form."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from streamkit.cli import main

CALL = {"id": "call_abc", "type": "function", "function": {"name": "look", "arguments": '{"at":"sea"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is there?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_abc", "content": "a ship"},
    {"role": "assistant", "content": "A ship."},
]


def written(tmp_path: Path, thread: object) -> str:
    path = tmp_path / "thread.json"
    path.write_text(json.dumps(thread), encoding="utf-8")
    return str(path)


def converted(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str]:
    assert main(["convert", *arguments]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_chat_messages_become_anthropic_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body, err = converted(capsys, written(tmp_path, CHAT), "--from", "openai_chat", "--to", "anthropic")
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant"]
    call, result = body["messages"][1]["content"][0], body["messages"][2]["content"][0]
    assert (call["name"], call["input"]) == ("look", {"at": "sea"})
    assert result["tool_use_id"] == call["id"]
    assert "stream" not in body
    assert err == ""


def test_the_system_text_of_a_request_body_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"model": "m", "system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]}
    made, _ = converted(capsys, written(tmp_path, body), "--from", "anthropic", "--to", "openai_chat")
    assert made["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def test_a_round_trip_keeps_the_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there, _ = converted(capsys, written(tmp_path, CHAT), "--from", "openai_chat", "--to", "gemini")
    back, _ = converted(capsys, written(tmp_path, there), "--from", "gemini", "--to", "openai_chat")
    assert [message["role"] for message in back["messages"]] == [message["role"] for message in CHAT]
    assert back["messages"][-1] == CHAT[-1]


@pytest.mark.parametrize(("version", "field"), [("4", "args"), ("5", "input")])
def test_vercel_messages(version: str, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, CHAT)
    made, _ = converted(capsys, path, "--from", "openai_chat", "--to", "vercel", "--version", version)
    assert made[2]["content"][0][field] == {"at": "sea"}


def test_changes_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body, err = converted(capsys, written(tmp_path, CHAT[:3]), "--from", "openai_chat", "--to", "anthropic")
    assert body["messages"][-1]["content"][0]["is_error"] is True  # the call that nobody answered
    assert len(err.splitlines()) == 1
    assert "look" in err


def test_messages_are_read_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(CHAT[1:2])))
    made, _ = converted(capsys, "-", "--from", "openai_chat", "--to", "cohere")
    assert made["messages"] == [{"role": "user", "content": "What is there?"}]


def test_a_byte_order_mark_before_the_messages_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\ufeff" + json.dumps(CHAT[1:2])
    path = tmp_path / "thread.json"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    for name in (str(path), "-"):
        made, _ = converted(capsys, name, "--from", "openai_chat", "--to", "cohere")
        assert made["messages"] == [{"role": "user", "content": "What is there?"}]


@pytest.mark.parametrize("text", ["no JSON", '"a text"', "{}", "5"])
def test_a_file_without_messages_is_an_error(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "thread.json"
    path.write_text(text, encoding="utf-8")
    assert main(["convert", str(path), "--from", "openai_chat", "--to", "gemini"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert str(path) in err


def test_an_unknown_provider_is_an_error_that_lists_the_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", written(tmp_path, CHAT), "--from", "openai_chat", "--to", "nobody"]) == 2
    assert "anthropic" in capsys.readouterr().err


def test_an_image_that_the_target_does_not_support_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    path = written(tmp_path, [{"role": "user", "content": [image]}])
    assert main(["convert", path, "--from", "openai_chat", "--to", "ollama"]) == 2
    assert "image" in capsys.readouterr().err
