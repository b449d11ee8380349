from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from waiting import PATIENCE

from streamkit.cli import main
from streamkit.testing import Call, Disconnect, Reasoning, Reply, Stall, Status, serve

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
