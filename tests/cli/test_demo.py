"""The demo: a conversation as it streams, the table of all wires, then one response with eager tools and without."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
from rich.console import Console

from streamkit import events, providers
from streamkit.bridges import http
from streamkit.calls import ToolCall
from streamkit.cli import demo, main
from streamkit.cli.terminal import ConversationView

LAZY_ORDER = "response complete, Oslo, Bergen, message, results complete"
EAGER_ORDER = "Oslo, Bergen, response complete, message, results complete"


def eager_orders(output, name):
    """Return the order of events without and with ``eager=True`` for one wire."""
    lines = output.partition("Eager start")[2].splitlines()
    position = lines.index(name)
    return [line.split("  ", 2)[-1].strip() for line in lines[position + 1 : position + 3]]


def joined_lines(output):
    """Return the output without its line breaks, which depend on the width."""
    return " ".join(output.split())


# ---------------------------------------------------------------- one conversation on every wire


@pytest.mark.slow
def test_every_wire_has_the_same_outcome(capsys):
    assert main(["demo"]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert all(character.isprintable() or character == "\n" for character in output)
    names = demo.list_wires()
    assert {"anthropic", "azure_openai", "gemini", "openai_chat", "openai_compatible"} <= set(names)
    assert output.startswith("anthropic, a scripted conversation over HTTP  POST /anthropic/v1/messages\n")
    rows = output[output.index("\nwire ") :].splitlines()[2:]
    assert [row.split()[0] for row in rows[: rows.index("")] if not row.startswith(" ")] == names
    assert f"the same on each of the {len(names)} wires" in output
    assert output.count("TimeoutError: the station is silent") == 1
    assert max(map(len, output.splitlines())) <= 80
    assert eager_orders(output, "anthropic") == [LAZY_ORDER, EAGER_ORDER]
    assert eager_orders(output, "openai_chat") == [LAZY_ORDER, EAGER_ORDER]
    assert re.findall(r"\d s\b", output.partition("Eager start")[2]) == []
    assert "calls, results and messages are equal" in joined_lines(output)
    streams = output.partition("Several streams")[2]
    assert sorted(streams.partition("\n\n")[2].split("\n\n")[0].splitlines()) == [
        f'  {name:<11}  get_weather {{"city": "{city}"}} = {demo.WEATHER[city]}'
        for name in demo.STREAM_WIRES
        for city in ("Bergen", "Oslo")
    ]
    assert "Each of the three streams has the results of its own calls." in joined_lines(streams)


@pytest.mark.slow
@pytest.mark.parametrize("name", providers.names())
def test_one_provider_alone(capsys, name):
    assert main(["demo", "--provider", name]) == 0
    output = capsys.readouterr().out
    assert f"as scripted on {name}" in output
    assert output.count("POST /") == 1


CONVERSATION = """\
    you Is it warmer in Oslo or in Bergen?
  model I ask both weather stations.
   call get_weather {"city":"Oslo"}
   call get_weather {"city":"Bergen"}
   tool get_weather {"city": "Oslo"} = 4 degrees, snow
   tool get_weather {"city": "Bergen"} ! TimeoutError: the station is silent.
  model Bergen did not answer; I ask there again.
   call get_weather {"city":"Bergen"}
   tool get_weather {"city": "Bergen"} = 9 degrees, rain
  model Bergen: 9 degrees and rain. Oslo has 4 degrees and snow.
"""


def test_two_wires_are_shown_and_compared(capsys):
    """Gemini sends the arguments of a call whole, Chat Completions in parts."""
    assert main(["demo", "--provider", "gemini", "--provider", "openai_chat", "--provider", "gemini"]) == 0
    output = capsys.readouterr().out
    assert output.count(CONVERSATION) == output.count("POST /") == 2
    assert output.index("gemini, a scripted") < output.index("openai_chat, a scripted")
    assert "the same on each of the 2 wires" in output


def test_calls_grow_where_they_arrive():
    """Parts of two calls in turn are on lines of their own; arguments that the provider restates are printed again."""
    printed = io.StringIO()
    view = ConversationView(Console(file=printed, width=80))
    calls = [ToolCall(index=index, id=f"call_{index}", name=name) for index, name in enumerate(("first", "second"))]
    for event in (
        events.Text("Both. "),
        events.ToolCallStart(calls[0]),
        events.ToolCallStart(calls[1]),
        *(events.ToolCallDelta(calls[0], part) for part in ('{"a', '":1')),
        events.ToolCallDelta(calls[1], '{"b":"\x1b"'),
        events.ToolCallDelta(calls[0], "}"),
        events.ArgumentsRestated(calls[0], '{"a":2}'),
    ):
        view.show(event)
    view.end_line()
    assert printed.getvalue().splitlines() == [
        "  model Both. ",
        "   call first ",
        "   call second ",
        '   call first {"a":1',
        '   call second {"b":"\\x1b"',
        "   call first }",
        '   call first {"a":2}',
    ]


@pytest.mark.parametrize("columns", [30, 50])
def test_a_narrow_terminal_shows_every_column(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["demo", "--provider", "anthropic"]) == 0
    output = capsys.readouterr().out
    assert "as scripted on anthropic" in joined_lines(output)


def test_an_unknown_provider_is_an_error_that_lists_the_names(capsys):
    assert main(["demo", "--provider", "antropic"]) == 2
    assert "known are: anthropic" in capsys.readouterr().err


def test_a_wire_that_differs_is_a_failure(capsys, monkeypatch):
    measure = demo._measure

    def measure_and_change(result):
        if result.provider == "gemini":
            result.results[2] = ("completed", "10 degrees, sun")
        return measure(result)

    monkeypatch.setattr(demo, "_measure", measure_and_change)
    monkeypatch.setattr(demo, "list_wires", lambda: ["anthropic", "gemini"])
    assert main(["demo"]) == 1
    output = capsys.readouterr().out
    assert "gemini differs: results" in output
    assert "the same on" not in output


def test_bytes_that_give_other_ids_when_read_again_are_a_failure(capsys, monkeypatch):
    measure = demo._measure

    def measure_other_ids(result):
        result.ids.reverse()
        return measure(result)

    monkeypatch.setattr(demo, "_measure", measure_other_ids)
    assert main(["demo", "--provider", "anthropic"]) == 1
    assert "the same bytes gave other ids" in joined_lines(capsys.readouterr().out)


@pytest.mark.slow
def test_output_that_must_be_ascii():
    done = subprocess.run(
        [sys.executable, "-m", "streamkit.cli", "demo", "--provider", "gemini"],
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": "", "COLUMNS": "80"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


@pytest.mark.slow
def test_forced_colours_do_not_make_a_file_a_terminal():
    done = subprocess.run(
        [sys.executable, "-m", "streamkit.cli", "demo", "--provider", "gemini"],
        capture_output=True,
        check=False,
        env={**os.environ, "FORCE_COLOR": "1"},
    )
    assert done.returncode == 0
    assert b"\x1b[1m" in done.stdout  # colours were requested
    assert re.findall(rb"\d s\b", done.stdout.partition(b"Eager start")[2]) == []  # nothing was timed


# ---------------------------------------------------------------- eager start


@pytest.mark.parametrize("name", ["bedrock_converse", "cohere", "gemini", "ollama", "openai_responses", "azure_openai"])
def test_tools_start_early_on_every_wire_that_reports_the_end_of_a_call(capsys, name):
    assert main(["demo", "--provider", name]) == 0
    assert eager_orders(capsys.readouterr().out, name) == [LAZY_ORDER, EAGER_ORDER]


@pytest.mark.parametrize("name", ["kimi", "openai_compatible", "groq"])
def test_no_tool_starts_early_on_a_wire_that_does_not_report_the_end_of_a_call(capsys, name):
    assert main(["demo", "--provider", name]) == 0
    output = capsys.readouterr().out
    assert eager_orders(output, name) == [LAZY_ORDER, LAZY_ORDER]
    assert f"{name} does not report the end of a call before the finish" in joined_lines(output)


def change_eagerness(monkeypatch, is_eager):
    """Give every run of the eager part the same eagerness."""
    original = demo._run_eagerly
    monkeypatch.setattr(
        demo, "_run_eagerly", lambda result, server, _, is_live: original(result, server, is_eager, is_live)
    )


def test_a_tool_that_should_start_early_and_does_not_is_a_failure(capsys, monkeypatch):
    change_eagerness(monkeypatch, is_eager=False)
    assert main(["demo", "--provider", "anthropic"]) == 1
    assert "no call started before the response was complete" in joined_lines(capsys.readouterr().out)


def test_a_tool_that_starts_too_early_is_a_failure(capsys, monkeypatch):
    change_eagerness(monkeypatch, is_eager=True)
    assert main(["demo", "--provider", "anthropic"]) == 1
    output = joined_lines(capsys.readouterr().out)
    assert "the call Oslo started before the response was complete, without eager=True" in output


def test_a_request_that_fails_is_a_failure(capsys, monkeypatch):
    monkeypatch.setattr(http, "request_url", lambda endpoint, model, base_url: f"{base_url}/unknown")
    assert main(["demo", "--provider", "anthropic"]) == 1
    output = joined_lines(capsys.readouterr().out)
    assert "anthropic differs: StreamInterrupted: " in output
    assert output.count("anthropic, eager=") == 2
    assert "are equal" not in output


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX")
def test_a_terminal_shows_fewer_seconds_with_eager_start():
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "streamkit.cli", "demo", "--provider", "anthropic"],
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40", "NO_COLOR": "1"},
    )
    os.close(slave)
    output = b""
    with process:
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not data:
                break
            output += data
    os.close(master)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output.decode())
    without, eager = map(float, re.findall(r"results complete (\d\.\d\d) s", joined_lines(text)))
    # The response takes about a second and a half, get_weather 0.9 seconds after it, or during it.
    assert without > eager


def test_the_default_wires_of_the_eager_part_are_in_the_table():
    assert set(demo.EAGER_WIRES) <= set(demo.list_wires())
