"""The command ``streamkit inspect``: frames beside events, the summary, growing files, hostile text."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from streamkit import providers
from streamkit.cli import main
from streamkit.history import Content, ToolCallBlock

CALL = ToolCallBlock(id="call_1", name="get_weather", parameters={"city": "Oslo"}, metadata={"raw_id": "call_1"})


def stream(*blocks: Any, provider: str = "anthropic") -> bytes:
    return b"".join(providers.get(provider).emit(Content.ai(*blocks), response_id="r1", model="m"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "turn.sse"
    path.write_bytes(stream("Looking.", CALL))
    return path


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")


def test_frames_are_beside_events(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if "text  Looking." in line]
    assert lines[at - 1].startswith('3     content_block_delta {"type":"content_block_delta","index":0,')
    assert lines[at - 1][73:].startswith("block_started")
    assert lines[at][73:] == "text  Looking."
    assert max(map(len, lines)) <= 140


def test_on_a_narrow_terminal_events_are_below_their_frame(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["inspect", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("3 "))
    assert "content_block_delta" in lines[at]
    assert lines[at + 1].startswith("      > block_started")
    assert lines[at + 2] == "      > text  Looking."
    assert max(map(len, lines[: lines.index("")])) <= 60


@pytest.mark.parametrize("width", [140, 100, 60, 12, 8, 1])
def test_wide_characters_have_two_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Lines of Chinese text were wider than the terminal, which wrapped them, and columns were shifted."""
    texts = ["你好,世界。" * 20, "plain", "👩‍👩‍👧‍👦 한국어", "e\u0301" * 50]
    chunks = [{"choices": [{"index": 0, "delta": {"content": text}}], "id": "r"} for text in texts]
    data = b"".join(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n" for chunk in chunks)
    (tmp_path / "wide.sse").write_bytes(data + b"data: [DONE]\n\n")
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["inspect", str(tmp_path / "wide.sse"), "--provider", "openai_chat"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = lines[: lines.index("")]
    assert max(map(cell_len, rows)) <= max(width, 9)
    if width >= 100:
        starts = {cell_len(row.partition("  text  ")[0]) for row in rows if "  text  " in row}
        assert starts == {6 + (width - 6) // 2 - 2}
    if width == 60:
        assert "      > text  你好,世界。你好,世界。你好,世界。你好,世界..." in rows


def test_the_summary_is_at_the_end(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file)]) == 0
    out = capsys.readouterr().out
    summary = out[out.index("\nresponse anthropic m r1") :]
    assert "call     get_weather  complete  hist_tool_" in summary
    assert '{"city":"Oslo"}' in summary
    assert "finish   tool_calls" in summary
    assert "\x1b" not in out  # no colour: the output is no terminal


def bars(out: str) -> list[str]:
    """Return the heading of the timeline and its lines."""
    return out[out.index("  timeline ") :].splitlines()


def test_the_timeline_has_a_bar_for_each_part_by_rows(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert main(["inspect", str(file)]) == 0
    assert bars(capsys.readouterr().out) == [
        "  timeline by the number of the row: the file has no times of its parts",
        "  text             " + " " * 8 + "█" * 3 + " " * 11 + " 3",
        "  call get_weather " + " " * 13 + "█" * 9 + " 5 to 7",
    ]


def test_the_timeline_of_a_recording_is_in_seconds(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    response = file.with_name("x.response.sse")
    file.rename(response)
    lines = response.read_bytes().split(b"\n")
    times = [[number, number / 4] for number in range(1, len(lines) + 1)]
    facts = {"provider": "anthropic", "time": "2026-11-27T14:00:00Z", "response": response.name, "times": times}
    response.with_name("x.exchange.json").write_text(json.dumps(facts))
    assert main(["inspect", str(response)]) == 0
    heading, *shown = bars(capsys.readouterr().out)
    assert heading == "  timeline in seconds"
    assert [line.split("█")[0].strip() for line in shown] == ["waiting", "text", "call get_weather"]
    assert shown[0].endswith(" 0.00 to 0.25 s")
    assert len({len(line) for line in shown}) == 1


def test_a_response_without_parts_has_no_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.sse").write_bytes(b'data: {"id": "r", "choices": []}\n\ndata: [DONE]\n\n')
    main(["inspect", str(tmp_path / "empty.sse")])
    assert "timeline" not in capsys.readouterr().out


@pytest.mark.slow
def test_colour_only_on_a_terminal_and_without_no_color(file: Path) -> None:
    pty = pytest.importorskip("pty", reason="pseudo terminals are POSIX")
    for no_color, has_colour in (("", True), ("1", False)):
        environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm", "COLUMNS": "140"}
        if not no_color:
            del environment["NO_COLOR"]
        own, other = pty.openpty()
        with os.fdopen(own, "rb", buffering=0) as terminal:
            command = [sys.executable, "-m", "streamkit.cli", "inspect", str(file)]
            process = subprocess.Popen(command, stdout=other, env=environment)
            os.close(other)
            out = b""
            try:
                while part := terminal.read(65536):
                    out += part
            except OSError:  # Linux, at the end of a terminal
                pass
        assert process.wait() == 0
        assert (b"\x1b[36m" in out) is has_colour


def test_an_error_is_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cut.sse"
    path.write_bytes(stream("Looking.", CALL)[:600])
    assert main(["inspect", str(path)]) == 1
    assert "error    stream_truncated: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "the file is empty"), (b"hello there", "not a stream of a known provider: it begins with 'hello there'")],
)
def test_a_file_that_is_no_stream(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_and_a_file_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "nothing")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_hostile_text_and_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\x1b]52;c;x\x07 \u202e sk-proj-abcdefghijklmnop0123"
    chunk = {"id": "r", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    path = tmp_path / "x.sse"
    path.write_bytes(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\ndata: [DONE]\n\n")
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "\\x1b]52;c;x\\x07 \\u202e ***" in out
    assert not set("\x1b\x07\u202e") & set(out)
    assert "sk-proj-abc" not in out


@contextmanager
def following(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command that may never end, and stop it with the test."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("begin", [pytest.param(0, marks=pytest.mark.slow), 500])
def test_a_growing_file_is_followed_to_the_end(begin: int, file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:begin])
    command = [sys.executable, "-m", "streamkit.cli", "inspect", str(file), "--follow"]
    with following(command) as process:
        assert process.stdout is not None
        if begin:
            assert process.stdout.readline().startswith("0 ")
        with file.open("ab") as growing:
            growing.write(data[begin:])
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "finish   tool_calls" in out


@pytest.mark.slow
def test_following_ends_with_the_facts_of_a_recording(tmp_path: Path) -> None:
    """Gemini's stream has no terminator, so only the facts tell that it is complete."""
    file = tmp_path / "x.response.sse"
    file.write_bytes(stream("Looking.", provider="gemini"))
    command = [sys.executable, "-m", "streamkit.cli", "inspect", str(file), "--follow"]
    with following(command) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (tmp_path / "x.exchange.json").write_text('{"provider": "gemini"}')
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "finish   stop" in out


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_ctrl_c_ends_the_following_with_the_summary(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:600])
    command = [sys.executable, "-m", "streamkit.cli", "inspect", str(file), "--follow"]
    with following(command) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)  # until it waits
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "response anthropic m r1" in out
