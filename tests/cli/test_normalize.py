from __future__ import annotations

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from streamkit import events, providers
from streamkit.cli import main
from streamkit.history import Content, ToolCallBlock

NAMES = ["anthropic", "gemini", "openai_chat"]


def stream(name, text="Lett snø.", *blocks):
    content = Content.ai(text, *blocks)
    return b"".join(providers.get(name).emit(content, response_id="r1", model="m"))


CALL = ToolCallBlock(id="call_1", name="get_weather", parameters={"city": "Tromsø"}, metadata={"raw_id": "call_1"})


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.sse").write_bytes(stream(name, "Lett snø.", CALL))
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_a_file_becomes_one_json_object(folder, capsys, name):
    assert main(["normalize", str(folder / f"{name}.sse")]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    said = json.loads(out)
    assert said["file"] == str(folder / f"{name}.sse")
    assert said["provider"] == name
    assert said["text"] == "Lett snø."
    assert "snø" in out  # as it is, not escaped
    (call,) = said["calls"]
    assert (call["name"], call["arguments"], call["state"]) == ("get_weather", {"city": "Tromsø"}, "complete")
    assert call["id"].startswith("hist_tool_")
    assert {"raw_id", "kind", "arguments_text", "ended", "index", "metadata", "warnings"} <= set(call)
    assert said["finish"]["reason"] == "tool_calls"
    assert {"reasoning", "refusal", "usage", "error", "warnings"} <= set(said)


@pytest.mark.parametrize("name", NAMES)
def test_events_are_printed_one_a_line(folder, capsys, name):
    assert main(["normalize", "--events", str(folder / f"{name}.sse")]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [events.from_json(line) for line in lines]
    assert "".join(event.text for event in found if isinstance(event, events.Text)) == "Lett snø."
    assert isinstance(found[-1], events.Finished)
    assert all(json.loads(line)["file"].endswith(f"{name}.sse") for line in lines)


def test_the_files_of_a_folder_are_read_in_order(folder, capsys):
    (folder / "deeper").mkdir()
    (folder / "deeper" / "again.sse").write_bytes(stream("anthropic"))
    (folder / ".hidden").write_bytes(b"not a stream")
    assert main(["normalize", str(folder)]) == 0
    captured = capsys.readouterr()
    files = [json.loads(line)["file"].removeprefix(str(folder)) for line in captured.out.splitlines()]
    assert files == ["/anthropic.sse", "/deeper/again.sse", "/gemini.sse", "/openai_chat.sse"]
    assert captured.err == ""


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty"),
        (b"<!doctype html><p>Bad gateway", "it begins with '<!doctype html>"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "not a stream"),
        (b'{"name": "something else"}', "not a stream"),
    ],
)
def test_a_file_that_is_not_a_stream_is_reported_and_the_others_are_read(folder, capsys, content, sentence):
    odd = folder / "odd"
    odd.write_bytes(content)
    assert main(["normalize", str(folder / "anthropic.sse"), str(odd), str(folder / "gemini.sse")]) == 2
    captured = capsys.readouterr()
    assert [json.loads(line)["provider"] for line in captured.out.splitlines()] == ["anthropic", "gemini"]
    assert captured.err.startswith(f"{odd}: ")
    assert sentence in captured.err
    assert captured.err.count("\n") == 1


def test_a_file_that_is_not_a_stream_of_the_named_provider_is_reported(tmp_path, capsys):
    page = tmp_path / "page.html"
    page.write_bytes(b"<!doctype html><p>Bad gateway")
    assert main(["normalize", "--provider", "anthropic", str(page)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{page}: not a stream of anthropic: an HTML" in captured.err


def test_a_file_that_cannot_be_read_is_reported(folder, capsys):
    empty = folder / "empty"
    empty.mkdir()
    missing = folder / "missing.sse"
    assert main(["normalize", str(missing), str(empty), str(folder / "gemini.sse")]) == 2
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        f"{missing}: the file cannot be read: No such file or directory",
        f"{empty}: the folder contains no file",
    ]
    assert json.loads(captured.out)["provider"] == "gemini"


def test_a_truncated_stream_is_printed_with_its_error(tmp_path, capsys):
    cut = tmp_path / "cut.sse"
    cut.write_bytes(stream("anthropic", "Snow.", CALL)[:-150])
    assert main(["normalize", str(cut)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["text"], said["error"]["kind"]) == ("Snow.", "stream_truncated")


def test_a_named_provider_is_not_detected(tmp_path, capsys):
    path = tmp_path / "chat.sse"
    path.write_bytes(stream("openai_chat"))
    assert main(["normalize", "--provider", "azure_openai", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["provider"] == "azure_openai"


def test_an_unknown_provider_is_an_error_that_lists_the_names(tmp_path, capsys):
    assert main(["normalize", "--provider", "antropic", str(tmp_path)]) == 2
    assert "unknown provider 'antropic'; known are: anthropic" in capsys.readouterr().err


def test_standard_input_is_read(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stream("gemini"))))
    assert main(["normalize", "-"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["file"], said["provider"]) == ("-", "gemini")


def test_events_of_a_pipe_are_printed_as_they_arrive():
    whole = stream("anthropic", "one two three")
    process = subprocess.Popen(
        [sys.executable, "-m", "streamkit.cli", "normalize", "--events", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    end = whole.index(b"\n\n", whole.index(b"text_delta")) + 2
    with process:
        process.stdin.write(whole[:end])
        process.stdin.flush()
        kinds = iter(lambda: json.loads(process.stdout.readline())["type"], "text")
        assert list(kinds) == [
            "response_started",
            "usage_report",
            "block_started",
        ]  # then comes the text, and the rest of the stream was not written yet
        process.stdin.write(whole[end:])
        process.stdin.close()
        assert json.loads(process.stdout.read().splitlines()[-1])["type"] == "finished"
    assert process.returncode == 0


def test_a_closed_output_pipe_is_not_an_error(folder):
    (folder / "long.sse").write_bytes(stream("anthropic", "word " * 40_000))
    process = subprocess.Popen(
        [sys.executable, "-m", "streamkit.cli", "normalize", "--events", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
