"""The demo's last part: the same answer with tools that may begin early and without."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from rich.console import Console

from streamkit.cli import demo, eager, main
from streamkit.cli.timeline import Lane, Timeline

WITHOUT = "answer over, Oslo read, Bergen read, message sent"
WITH = "Oslo read, Bergen read, answer over, message sent"


def lines_after(out, name):
    """The two lines of a wire: without and with ``eager=True``."""
    lines = out.partition("Eager start")[2].splitlines()
    at = lines.index(name)
    return [line.split("  ", 2)[-1].strip() for line in lines[at + 1 : at + 3]]


def test_where_nobody_watches_the_order_shows_it_and_no_seconds_are_told(capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert lines_after(out, "anthropic") == [WITHOUT, WITH]
    assert lines_after(out, "openai_chat") == [WITHOUT, WITH]
    assert re.findall(r"\d s\b", out.partition("Eager start")[2]) == []
    assert "calls, results and threads are equal" in " ".join(out.split())


@pytest.mark.parametrize("name", ["bedrock_converse", "cohere", "gemini", "ollama", "openai_responses", "azure_openai"])
def test_every_wire_that_tells_a_call_is_over_lets_tools_begin(capsys, name):
    assert main(["demo", "--provider", name]) == 0
    assert lines_after(capsys.readouterr().out, name) == [WITHOUT, WITH]


@pytest.mark.parametrize("name", ["kimi", "openai_compatible", "groq"])
def test_a_wire_that_does_not_tell_so_says_why_nothing_began(capsys, name):
    assert main(["demo", "--provider", name]) == 0
    out = capsys.readouterr().out
    assert lines_after(out, name) == [WITHOUT, WITHOUT]
    assert f"{name} does not say that a call is over" in " ".join(out.split())


def test_a_tool_that_should_have_begun_and_did_not_is_a_failure(capsys, monkeypatch):
    made = eager._tools
    monkeypatch.setattr(eager, "_tools", lambda run, seconds, *, eager: made(run, seconds, eager=False))
    assert main(["demo", "--provider", "anthropic"]) == 1
    assert "Oslo was to begin before the answer was over" in " ".join(capsys.readouterr().out.split())


def test_a_tool_that_began_too_early_is_a_failure(capsys, monkeypatch):
    made = eager._tools
    monkeypatch.setattr(eager, "_tools", lambda run, seconds, *, eager: made(run, seconds, eager=True))
    assert main(["demo", "--provider", "anthropic"]) == 1
    assert "began before the answer was over, without eager=True" in " ".join(capsys.readouterr().out.split())


def test_a_request_that_fails_is_a_failure(capsys, monkeypatch):
    monkeypatch.setattr(eager, "request_url", lambda *_: "http://127.0.0.1:9/nobody")
    assert main(["demo", "--provider", "anthropic"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "as scripted on anthropic" in out
    assert out.count("anthropic: StreamInterrupted: ") == 2
    assert "are equal" not in out


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="terminals of this kind are POSIX")
def test_on_a_terminal_the_seconds_are_measured_and_fewer():
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "streamkit.cli", "demo", "--provider", "anthropic"],
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40", "NO_COLOR": "1"},
    )
    os.close(slave)
    shown = b""
    with process:
        while True:
            try:
                read = os.read(master, 65536)
            except OSError:  # Linux: the other side is closed
                break
            if not read:
                break
            shown += read
    os.close(master)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    found = re.search(r"anthropic: the round took (\d\.\d\d) s, with eager=True (\d\.\d\d) s", " ".join(text.split()))
    # The answer takes about a second and a half, reading 0.9 seconds, sending 0.2: after one another, or beside it.
    without, early = map(float, found.groups())
    assert without > early


def test_colours_that_are_forced_do_not_make_a_file_a_terminal():
    done = subprocess.run(
        [sys.executable, "-m", "streamkit.cli", "demo", "--provider", "gemini"],
        capture_output=True,
        check=False,
        env={**os.environ, "FORCE_COLOR": "1"},
    )
    assert done.returncode == 0
    assert b"\x1b[1m" in done.stdout  # colours were asked for
    assert b"\x1b[?25l" not in done.stdout  # a moving picture was not
    assert b"\x1b[2K" not in done.stdout


def drawn(timeline, columns=60, **options):
    console = Console(width=columns, force_terminal=False, color_system=None, **options)
    with console.capture() as capture:
        console.print(timeline)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_lane_stands_where_it_happened():
    # 60 columns: 22 for the name, 38 for 3.8 seconds, a tenth of a second each.
    answer, reading, waiting = Lane("answer", 0.0, 1.5), Lane("get_weather Oslo", 0.5, 1.0), Lane("send_message")
    timeline = Timeline("eager=True", [answer, reading, waiting], 3.8)
    timeline.took = 1.5
    assert drawn(timeline) == [
        "  eager=True  1.50 s",
        "               answer " + "━" * 15,
        "     get_weather Oslo " + " " * 5 + "━" * 5,
        "         send_message",
    ]


def test_a_lane_that_has_begun_grows_with_the_clock():
    now = [0.2]
    timeline = Timeline("eager=True", [Lane("answer", 0.0)], 3.8, clock=lambda: now[0])
    assert drawn(timeline)[1:] == ["               answer ━━"]
    now[0] = 0.7
    assert drawn(timeline) == ["  eager=True  0.70 s", "               answer " + "━" * 7]


def test_what_takes_longer_than_was_thought_still_fits():
    timeline = Timeline("eager=False", [Lane("answer", 0.0, 7.6), Lane("send_message", 7.59, 7.6)], 3.8)
    timeline.took = 7.6
    assert drawn(timeline)[1:] == [
        "               answer " + "━" * 38,
        "         send_message " + " " * 37 + "━",
    ]


def test_the_wires_of_the_default_run_are_ones_of_the_demo():
    assert set(eager.WIRES) <= set(demo._wires())
