from __future__ import annotations

import io
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import PATIENCE

from streamkit.cli import chat as chat_module
from streamkit.cli import main
from streamkit.testing import Call, Disconnect, Reasoning, Reply, Stall, Status, serve
from streamkit.tools import Approval

NAMES = ["anthropic", "azure_openai", "gemini", "openai_chat", "openai_compatible"]
SCRIPT = [
    Reply("Let me look.", Call("get_weather", {"city": "Oslo"}), Call("get_weather", {"city": "Atlantis"})),
    Reply("Oslo has 4 degrees."),
]


@pytest.fixture(autouse=True)
def keys(monkeypatch, tmp_path):
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "secret")
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)
    tools = '''
        from streamkit.tools import tool

        def get_weather(city: str) -> str:
            """The weather in a city."""
            if city == "Atlantis":
                raise LookupError("no such place")
            return "4 degrees"

        get_time = tool(lambda: "noon", name="get_time", description="The time.")
        not_a_tool = 3
    '''
    (tmp_path / "chat_tools.py").write_text(textwrap.dedent(tools))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


def chat(server, name, *more):
    return main(["chat", "--provider", name, "--model", "m", "--base-url", server.base_url(name), *more])


@pytest.mark.parametrize("name", NAMES)
def test_the_response_is_written_to_stdout_and_the_tools_to_stderr(capsys, name):
    with serve(SCRIPT) as server:
        assert chat(server, name, "--tool", "chat_tools:get_weather", "Weather in Oslo?") == 0
    captured = capsys.readouterr()
    assert captured.out == "Let me look.\nOslo has 4 degrees.\n"
    lines = captured.err.splitlines()
    assert '= get_weather {"city":"Oslo"}: 4 degrees' in lines
    assert '! get_weather {"city":"Atlantis"}: LookupError: no such place.' in lines
    assert "\x1b" not in captured.err
    first, second = server.requests
    assert "get_weather" in str(first.json["tools"])
    assert "4 degrees" in str(second.json)
    assert "no such place" in str(second.json)


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("anthropic", "x-api-key", "secret"),
        ("azure_openai", "api-key", "secret"),
        ("gemini", "x-goog-api-key", "secret"),
        ("openai_chat", "authorization", "Bearer secret"),
    ],
)
def test_the_key_is_sent_in_the_providers_header(name, header, value):
    with serve("hi") as server:
        assert chat(server, name, "hello") == 0
    assert server.requests[0].headers[header] == value


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("anthropic", lambda body: body["max_tokens"]),
        ("gemini", lambda body: body["generationConfig"]["maxOutputTokens"]),
        ("openai_chat", lambda body: body["max_completion_tokens"]),
        ("openai_compatible", lambda body: body["max_tokens"]),
    ],
)
def test_settings_are_sent_in_the_providers_fields(name, limit):
    with serve("hi") as server:
        assert chat(server, name, "--max-tokens", "77", "--system", "Be brief.", "hello") == 0
    body = server.requests[0].json
    assert limit(body) == 77
    assert "Be brief." in str(body)
    assert "hello" in str(body)


def test_reasoning_and_a_tool_object(capsys):
    with serve([Reply(Reasoning("Hm."), Call("get_time")), Reply("Noon.")]) as server:
        assert chat(server, "anthropic", "--tool", "chat_tools:get_time", "Time?") == 0
    captured = capsys.readouterr()
    assert captured.out == "Noon.\n"
    assert captured.err.splitlines()[0] == "Hm."


@pytest.mark.parametrize("name", NAMES)
def test_a_rejected_request_is_one_sentence(capsys, name):
    with serve(Status(401, "the key is not valid")) as server:
        assert chat(server, name, "hello") == 1
    captured = capsys.readouterr()
    assert captured.out.strip() == ""
    assert captured.err == "streamkit chat: provider error: the key is not valid (HTTP status 401)\n"


def test_retry_after_is_reported(capsys):
    with serve(Status(429, "slow down", retry_after=2)) as server:
        assert chat(server, "anthropic", "hello") == 1
    assert "slow down (HTTP status 429); retry after 2 seconds" in capsys.readouterr().err


def test_a_broken_connection_is_one_sentence_and_earlier_text_stays(capsys):
    with serve(Reply("Half an ans", Disconnect(), "wer")) as server:
        assert chat(server, "anthropic", "hello") == 1
    captured = capsys.readouterr()
    assert captured.out == "Half an ans\n"
    assert captured.err.startswith("streamkit chat: transport error: ")
    assert captured.err.count("\n") == 1


def test_an_unreachable_address_is_one_sentence(capsys):
    arguments = ["chat", "--provider", "openai_chat", "--model", "m", "--base-url", "http://127.0.0.1:9", "hello"]
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "http://127.0.0.1:9/chat/completions" in err


def test_a_truncated_response_is_reported(capsys):
    with serve(Reply("Once upon", finish="length")) as server:
        assert chat(server, "anthropic", "hello") == 1
    captured = capsys.readouterr()
    assert captured.out == "Once upon\n"
    assert "maximum number of tokens" in captured.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--provider", "nobody", "hello"], "unknown provider 'nobody'"),
        (["--provider", "azure_openai", "hello"], "pass base_url (--base-url) or set AZURE_OPENAI_ENDPOINT"),
        (["--provider", "openai_chat", "--base-url", "localhost", "hello"], "must begin with http"),
        (["--provider", "openai_chat", "--tool", "chat_tools", "hello"], "module:function"),
        (["--provider", "openai_chat", "--tool", "no_such_module:f", "hello"], "No module named 'no_such_module'"),
        (["--provider", "openai_chat", "--tool", "chat_tools:f", "hello"], "the module chat_tools has no f"),
        (["--provider", "openai_chat", "--tool", "chat_tools:not_a_tool", "hello"], "not_a_tool"),
        (["--provider", "openai_chat", " "], "the prompt is empty"),
    ],
)
def test_wrong_arguments_are_reported(capsys, arguments, sentence):
    assert main(["chat", "--model", "m", *arguments]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_a_missing_key_names_its_variable(monkeypatch, capsys):
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    assert main(["chat", "--provider", "gemini", "--model", "m", "hello"]) == 2
    assert "set the environment variable GEMINI_API_KEY or GOOGLE_API_KEY" in capsys.readouterr().err


# ---------------------------------------------------------------- several answers, and what is kept of them


def talk(monkeypatch, server, name, *lines, more=()):
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return chat(server, name, *more)


def test_each_line_is_a_prompt_and_the_answers_before_are_sent(monkeypatch, capsys):
    with serve(["First.", "Second."]) as server:
        assert talk(monkeypatch, server, "anthropic", "one", "", "two", "/exit", "three") == 0
    captured = capsys.readouterr()
    assert captured.out == "First.\nSecond.\n"
    assert [line.partition(" in, ")[2] for line in captured.err.splitlines()] == ["2 out]", "2 out]"]
    texts = [[part["content"][0]["text"] for part in request.json["messages"]] for request in server.requests]
    assert texts == [["one"], ["one", "First.", "two"]]


def test_a_history_is_continued_with_another_provider(monkeypatch, tmp_path, capsys):
    """A file that the owner alone can read; a system prompt replaces the one before."""
    file = tmp_path / "chat.json"
    with serve(SCRIPT) as server:
        more = ("--history", str(file), "--system", "Be brief.", "--tool", "chat_tools:get_weather")
        assert chat(server, "anthropic", *more, "Weather in Oslo?") == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each["speaker"] for each in json.loads(file.read_text())] == ["system", "human", "ai", "tool", "ai"]
    with serve(["It was.", "Yes."]) as server:
        assert chat(server, "openai_chat", "--history", str(file), "--system", "Be long.", "Was it cold?") == 0
        assert chat(server, "gemini", "--history", str(file), "Really?") == 0
    first, second = (json.dumps(request.json) for request in server.requests)
    assert all(text in first for text in ("Weather in Oslo?", "4 degrees", "no such place", "Was it cold?", "Be long."))
    assert all(text in second for text in ("Oslo has 4 degrees.", "It was.", "Really?"))
    assert "Be brief." not in first
    assert [path.name for path in tmp_path.glob("*chat.json*")] == ["chat.json"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "this is no history that `streamkit chat` wrote: Invalid JSON"),
        ('[{"role": "user"}]', "this is no history that `streamkit chat` wrote: 0.speaker Field required"),
        (None, "the file cannot be read: Is a directory"),
    ],
)
def test_a_file_that_is_no_history_is_left_as_it_is(content, sentence, tmp_path, capsys):
    file = tmp_path / "chat.json"
    file.mkdir() if content is None else file.write_text(content)
    with serve("hi") as server:
        assert chat(server, "anthropic", "--history", str(file), "hello") == 2
    assert not server.requests
    err = capsys.readouterr().err
    assert err.startswith(f"streamkit chat: --history {file}: {sentence}")
    assert err.count("\n") == 1
    assert content is None or file.read_text() == content


def test_a_history_that_cannot_be_written_is_reported_before_or_after_the_answer(monkeypatch, tmp_path, capsys):
    with serve(["hi", "ho"]) as server:
        assert chat(server, "anthropic", "--history", str(tmp_path / "no" / "chat.json"), "hello") == 2
        assert f"there is no folder {tmp_path / 'no'}" in capsys.readouterr().err
        assert not server.requests

        def fail(path):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(chat_module, "create_private", fail)
        file = tmp_path / "chat.json"
        assert talk(monkeypatch, server, "anthropic", "one", "two", more=("--history", str(file))) == 0
    captured = capsys.readouterr()
    assert captured.out == "hi\nho\n"  # the talk goes on, and the second request has the first answer
    assert captured.err.count(f"--history {file}: the file cannot be written: No space left on device") == 2
    assert "hi" in str(server.requests[1].json)


def test_a_prompt_without_an_answer_is_not_in_the_history(monkeypatch, tmp_path, capsys):
    file = tmp_path / "chat.json"
    with serve([Status(401, "no"), "Now."]) as server:
        assert talk(monkeypatch, server, "anthropic", "one", "two", more=("--history", str(file))) == 0
    assert "the key is not" not in capsys.readouterr().out
    assert [message["content"][0]["text"] for message in server.requests[1].json["messages"]] == ["two"]
    assert [each["speaker"] for each in json.loads(file.read_text())] == ["human", "ai"]


PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def test_files_are_attached_to_the_first_prompt_or_to_the_next_one(monkeypatch, tmp_path, capsys):
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7 x")
    (tmp_path / "notes").write_text("Bring an umbrella.")
    with serve(["One.", "Two."]) as server:
        lines = ("Look.", "/attach notes", "/attach nothing", "/atach b.pdf", "And this?")
        assert talk(monkeypatch, server, "anthropic", *lines, more=("--attach", "a.png", "--attach", "b.pdf")) == 0
    first, second = (request.json["messages"][-1]["content"] for request in server.requests)
    assert [part["type"] for part in first] == ["text", "image", "document"]
    assert first[1]["source"]["media_type"] == "image/png"
    assert "Bring an umbrella." in str(second)
    assert "image" not in str(second)
    err = capsys.readouterr().err
    assert "streamkit chat: nothing cannot be attached: No such file or directory\n" in err
    assert "there is no command /atach: /attach FILE adds a file" in err


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.bin", b"\xff\xfe\xfd", "its type is not known, and it is no text"),
        ("large.txt", b"x" * 101, "it has more than"),
        (".", None, "Is a directory"),
    ],
)
def test_a_file_that_cannot_be_attached_is_one_sentence(name, content, sentence, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(chat_module, "_MOST_ATTACHED", 100)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with serve("hi") as server:
        assert chat(server, "anthropic", "--attach", name, "hello") == 2
    err = capsys.readouterr().err
    assert err.startswith(f"streamkit chat: {name} cannot be attached: {sentence}")
    assert err.count("\n") == 1


def test_a_file_that_the_provider_does_not_take_is_one_sentence_and_the_talk_goes_on(monkeypatch, tmp_path, capsys):
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7 x")
    with serve(["One."]) as server:
        assert talk(monkeypatch, server, "ollama", "/attach b.pdf", "Look.", "Hello?") == 0
    captured = capsys.readouterr()
    assert captured.out == "One.\n"
    assert captured.err.startswith("streamkit chat: ")
    assert "application/pdf" in captured.err
    assert len(server.requests) == 1


def test_the_cost_of_an_answer_and_of_all(monkeypatch, capsys):
    monkeypatch.setattr(chat_module, "list_price", lambda turn: 0.00125)
    with serve([*SCRIPT, "More."]) as server:
        assert talk(monkeypatch, server, "anthropic", "one", "two", more=("--tool", "chat_tools:get_weather")) == 0
    figures = [line for line in capsys.readouterr().err.splitlines() if line.startswith("[")]
    assert [line.split(" out, ")[1] for line in figures] == ["$0.0025]", "$0.00125, $0.00375 in all]"]
    monkeypatch.setattr(chat_module, "list_price", lambda turn: None)
    with serve("hi") as server:
        assert chat(server, "anthropic", "hello") == 0
    assert capsys.readouterr().err == ""  # one answer without a price


# ---------------------------------------------------------------- the tools of an MCP server

MCP_SERVER = Path(__file__).parents[1] / "bridges" / "mcp_server.py"


@pytest.mark.slow
def test_the_tools_of_an_mcp_server_need_approval_and_the_server_ends_with_the_chat(monkeypatch, tmp_path, capsys):
    pytest.importorskip("mcp")
    command = shlex.join([sys.executable, str(MCP_SERVER), str(tmp_path / "log"), str(tmp_path / "listing")])
    asked = []

    async def approve(call):
        asked.append(call.name)
        return Approval(allow=len(asked) == 1, reason="once is enough")

    monkeypatch.setattr(chat_module, "ask", approve)
    script = [Reply(Call("get_weather", {"city": "Oslo"}), Call("echo", {"text": "x"})), "Cold."]
    with serve(script, strict=False) as server:
        assert chat(server, "anthropic", "--mcp", command, "Weather?") == 0
    assert {tool["name"] for tool in server.requests[0].json["tools"]} >= {"get_weather", "echo"}
    assert asked == ["get_weather", "echo"]
    assert "once is enough" in str(server.requests[1].json)
    assert capsys.readouterr().out == "Cold.\n"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("no-such-program x", "the server did not start: "),
        (f"{sys.executable} -c 'import sys; sys.exit(\"wrong \\x1b[2J key\")'", "; it wrote: wrong \\x1b[2J key"),
        ("'", "must be a command such as 'npx -y server'"),
        ("", "must be a command such as 'npx -y server'"),
    ],
)
def test_a_command_that_is_no_mcp_server_is_one_sentence(command, sentence, capsys):
    pytest.importorskip("mcp")
    with serve("hi") as server:
        assert chat(server, "anthropic", "--mcp", command, "hello") == 2
    err = capsys.readouterr().err
    assert err.startswith("streamkit chat: --mcp")
    assert sentence in err
    assert err.count("\n") == 1
    assert not server.requests


# ---------------------------------------------------------------- Ctrl-C


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="terminals of this kind are POSIX")
def test_ctrl_c_ends_an_answer_and_the_chat_goes_on(tmp_path):
    """At a question for approval as well, whose line is not taken from the next prompt; Ctrl-D ends the chat."""
    asking = """
        from streamkit.tools import tool

        @tool(approval="ask")
        def send() -> str:
            '''Send.'''
            return ""
    """
    (tmp_path / "chat_sending.py").write_text(textwrap.dedent(asking))
    script = [Reply("Once", Stall(30)), Reply("I send.", Call("send")), "Third."]
    with serve(script) as server:
        arguments = ["chat", "--provider", "anthropic", "--model", "m", "--history", "h.json"]
        arguments += ["--tool", "chat_sending:send", "--base-url", server.base_url("anthropic")]
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

        def read_until(text):
            nonlocal shown
            while text not in shown:
                if not select.select([master], [], [], PATIENCE)[0]:
                    process.kill()
                    raise AssertionError(f"{text!r} is not in {shown!r}")
                shown += os.read(master, 4096)
            shown = shown.partition(text)[2]

        with process:
            read_until(b"> ")
            os.write(master, b"one\n")
            read_until(b"Once")
            os.write(master, b"\x03")
            read_until(b"(stopped)")
            read_until(b"> ")
            os.write(master, b"two\n")
            read_until(b"run it?")
            os.write(master, b"\x03")
            read_until(b"(stopped)")
            read_until(b"> ")
            os.write(master, b"three\n")
            read_until(b"Third.")
            read_until(b"> ")
            os.write(master, b"\x03")
            while b"(Ctrl-D ends the chat)" not in shown:
                if select.select([master], [], [], 2.0)[0]:
                    shown += os.read(master, 4096)
                else:  # the interpreter did not wait for the line yet, and so did not see it
                    os.write(master, b"\x03")
            read_until(b"(Ctrl-D ends the chat)")
            read_until(b"> ")
            os.write(master, b"\x04")
            assert process.wait(PATIENCE) == 0
        os.close(master)
    assert len(server.requests) == 3
    texts = str(server.requests[2].json["messages"])
    assert all(text in texts for text in ("'one'", "'Once'", "'two'", "I send.", "canceled before it began", "'three'"))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_ctrl_c_ends_the_command_without_a_traceback():
    with serve(Reply("Once", Stall(30))) as server:
        arguments = [
            "chat",
            "--provider",
            "anthropic",
            "--model",
            "m",
            "--base-url",
            server.base_url("anthropic"),
            "hi",
        ]
        # A shell starts what runs in its background deaf to Ctrl-C, and this test with it.
        code = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
            f"from streamkit.cli import main; sys.exit(main({arguments!r}))"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with process:
            assert process.stdout.read(4) == b"Once"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
            assert process.stderr.read().strip() == b""
    assert server.requests[0].disconnected
