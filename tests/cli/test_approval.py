"""``streamkit chat`` and tools that want somebody's agreement, and what is told of tools when it is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress

import pytest
from waiting import PATIENCE

from streamkit.calls import ToolCall
from streamkit.cli import chat as approval
from streamkit.cli import main
from streamkit.testing import Call, Reply, Stall, serve

pytestmark = pytest.mark.skipif(os.name == "nt", reason="terminals of this kind are POSIX")

TOOLS = '''
    import time

    from streamkit.tools import tool

    def words(state, arguments):
        return f"a message to {arguments['to']}"

    @tool(approval="ask", describe=words)
    def send_message(to: str, text: str = "") -> str:
        """Send a message."""
        return f"sent to {to}"

    def get_weather(city: str) -> str:
        """The weather in a city."""
        return "4 degrees"

    def count(to: int):
        """Count."""
        for number in range(1, to + 1):
            yield f"at {number}"

    def sleep() -> str:
        """Sleep for long."""
        time.sleep(60)
'''


@pytest.fixture(autouse=True)
def tools(monkeypatch, tmp_path):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    (tmp_path / "asking_tools.py").write_text(textwrap.dedent(TOOLS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


class Person:
    """Somebody at a terminal of their own, who answers one question after the other."""

    def __init__(self, monkeypatch, *answers):
        self.master, slave = os.openpty()
        monkeypatch.setattr(approval, "_TERMINAL", os.ttyname(slave))
        self._slave = slave  # kept open: without anybody at the other side a terminal has an error
        self._answers = list(answers)
        self.shown = ""
        self._thread = threading.Thread(target=self._sit, daemon=True)
        self._thread.start()

    def _sit(self):
        asked = 0
        while self._answers:
            self.shown += os.read(self.master, 4096).decode()
            if self.shown.count(approval.QUESTION) > asked:
                asked += 1
                os.write(self.master, self._answers.pop(0))

    def leaves(self):
        self._thread.join(PATIENCE)
        os.set_blocking(self.master, False)
        with suppress(BlockingIOError):
            self.shown += os.read(self.master, 65536).decode()
        os.close(self.master)
        os.close(self._slave)
        return self.shown


def chat(server, *tools):
    named = [part for tool in tools for part in ("--tool", f"asking_tools:{tool}")]
    return main(
        ["chat", "--provider", "anthropic", "--model", "m", "--base-url", server.base_url("anthropic"), *named, "Go."]
    )


def results(server):
    """The texts of the tool results that the model was sent last."""
    return [block["content"] for block in server.requests[-1].json["messages"][-1]["content"]]


def test_yes_runs_the_tool(monkeypatch, capsys):
    person = Person(monkeypatch, b"y\n")
    with serve([Reply("I write.", Call("send_message", {"to": "Ida", "text": "Hi"})), "Done."]) as server:
        assert chat(server, "send_message") == 0
    assert results(server) == ["sent to Ida"]
    assert '? send_message {"to": "Ida", "text": "Hi"}' in person.leaves()
    captured = capsys.readouterr()
    assert captured.out == "I write.\nDone.\n"
    assert captured.err.splitlines() == ["> a message to Ida", "= a message to Ida: sent to Ida"]


@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"No\n", b"\x04"])
def test_no_and_an_empty_line_deny_the_call(monkeypatch, answer):
    person = Person(monkeypatch, answer)
    with serve([Reply(Call("send_message", {"to": "Ida"})), "Pity."]) as server:
        assert chat(server, "send_message") == 0
    person.leaves()
    assert results(server) == ["Not run: send_message was not approved. Do not try it again unasked."]


def test_other_text_is_the_reason_for_the_model(monkeypatch, capsys):
    person = Person(monkeypatch, b"write to Bob instead\n")
    with serve([Reply(Call("send_message", {"to": "Ida"})), "Well."]) as server:
        assert chat(server, "send_message") == 0
    person.leaves()
    assert results(server) == ["Not run: send_message was not approved: write to Bob instead."]
    assert "! a message to Ida: Not run: send_message was not approved: write to Bob" in capsys.readouterr().err


def test_each_call_has_its_own_question_and_the_other_tools_do_not_wait(monkeypatch, capsys):
    person = Person(monkeypatch, b"n\n", b"yes\n")
    calls = Call("send_message", {"to": "Ida"}), Call("send_message", {"to": "Bob"}), Call("get_weather", {"city": "O"})
    with serve([Reply(*calls), "Done."]) as server:
        assert chat(server, "send_message", "get_weather") == 0
    assert results(server) == [
        "Not run: send_message was not approved. Do not try it again unasked.",
        "sent to Bob",
        "4 degrees",
    ]
    shown = person.leaves()
    assert shown.index('"Ida"') < shown.index('"Bob"')
    assert shown.count("? send_message") == 2
    assert '= get_weather {"city":"O"}: 4 degrees' in capsys.readouterr().err.splitlines()


def test_input_from_before_the_question_is_discarded(monkeypatch):
    person = Person(monkeypatch, b"n\n")
    os.write(person.master, b"y\n")
    with serve([Reply(Call("send_message", {"to": "Ida"})), "Pity."]) as server:
        assert chat(server, "send_message") == 0
    person.leaves()
    assert results(server) == ["Not run: send_message was not approved. Do not try it again unasked."]


def test_without_a_terminal_the_call_is_denied(monkeypatch, capsys):
    monkeypatch.setattr(approval, "_TERMINAL", "/nowhere/at/all")
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 - closed with the test
    with serve([Reply(Call("send_message", {"to": "Ida"})), "Pity."]) as server:
        assert chat(server, "send_message") == 0
    sys.stdin.close()
    said = "Not run: send_message was not approved: there is no terminal at which to ask for approval."
    assert results(server) == [said]
    assert said in capsys.readouterr().err


def test_the_question_shows_all_arguments_and_escapes_control_characters():
    long = "x" * 1000
    call = ToolCall(
        id="hist_tool_1",
        name="send_message",
        arguments={"to": "Ida\x1b[2K\u202e\u2028", "text": long, "smile": "ü☺"},
        index=0,
        state="complete",
    )
    shown = approval.format_question(call)
    assert shown == (
        '? send_message {"to": "Ida\\u001b[2K\\u202e\\u2028", "text": "' + long + '", "smile": "ü☺"}\n  '
        "run it? [y/N, or say why not] "
    )


def test_the_question_of_a_custom_call():
    call = ToolCall(id="hist_tool_1", name="run", index=0, kind="custom", arguments="rm\r\n-rf \\", state="complete")
    assert approval.format_question(call).splitlines()[0] == '? run "rm\\r\\n-rf \\\\"'


def test_progress_is_printed(capsys):
    with serve([Reply(Call("count", {"to": 3})), "Done."]) as server:
        assert chat(server, "count") == 0
    assert capsys.readouterr().err.splitlines() == [
        '> count {"to":3}',
        '~ count {"to":3}: at 1',
        '~ count {"to":3}: at 2',
        '= count {"to":3}: at 3',
    ]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        # in the middle of a tool
        pytest.param(
            Reply("Look.", Call("sleep")),
            b"> sleep\n! sleep: Canceled before it had finished; nothing is known of its effects.\n",
            id="running",
        ),
        # in the middle of a call that never ran
        pytest.param(
            Reply("Look.", Call("sleep", '{"a": "'), Stall(30), "x"), b"", id="preparing", marks=pytest.mark.slow
        ),
    ],
)
def test_ctrl_c_reports_the_outcome_of_the_tools(script, told):
    with serve([script, "Done."]) as server:
        arguments = ["chat", "--provider", "anthropic", "--model", "m", "--tool", "asking_tools:sleep"]
        arguments += ["--base-url", server.base_url("anthropic"), "hi"]
        # A shell starts what runs in its background deaf to Ctrl-C, and this test with it.
        code = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
            f"from streamkit.cli import main; sys.exit(main({arguments!r}))"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            begun = b""
            if told:
                begun = process.stderr.readline()  # it runs
            else:
                assert process.stdout.read(5) == b"Look."
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
            shown = begun + process.stderr.read()
            if told:
                assert shown.rstrip(b"\n") == told.rstrip(b"\n")
            else:  # the signal comes before or after the beginning of the call, which then is reported as truncated
                assert re.fullmatch(rb"(! sleep .*truncated\.)?\n*", shown)


@pytest.mark.slow
def test_ctrl_c_at_the_question_ends_the_command():
    """A terminal that is the process's own, as for a person: its Ctrl-C is the signal."""
    calls = Call("send_message", {"to": "Ida"}), Call("get_weather", {"city": "O"})
    with serve([Reply("I write.", *calls), "Done."]) as server:
        arguments = ["chat", "--provider", "anthropic", "--model", "m", "--tool", "asking_tools:send_message"]
        arguments += ["--tool", "asking_tools:get_weather"]
        arguments += ["--base-url", server.base_url("anthropic"), "hi"]
        code = (
            "import fcntl, signal, sys, termios; signal.signal(signal.SIGINT, signal.default_int_handler); "
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
            f"from streamkit.cli import main; sys.exit(main({arguments!r}))"
        )
        master, slave = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "dumb", "NO_COLOR": "1"},
        )
        os.close(slave)
        shown = b""
        with process:
            while approval.QUESTION.encode() not in shown:
                shown += os.read(master, 4096)
            time.sleep(0.3)  # the other tool ends meanwhile; nobody has heard of it yet
            os.write(master, b"\x03")
            assert process.wait(PATIENCE) == 130
            with suppress(OSError):  # Linux, when all is read: the other side is closed
                while rest := os.read(master, 4096):
                    shown += rest
        os.close(master)
    told = shown.decode().partition("^C")[2].splitlines()
    assert "! a message to Ida: Not run: canceled before it began." in told
    assert '= get_weather {"city":"O"}: 4 degrees' in told
    assert b"Traceback" not in shown
    assert b"Fatal" not in shown
    assert b"send_message was" not in shown
    assert len(server.requests) == 1
