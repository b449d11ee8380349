"""Nothing that a model, a server, a file or a tool sends reaches the terminal unescaped, in any channel."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import subprocess
import sys
import textwrap
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from wire_streams import chat, chat_bytes

from streamkit.calls import ToolCall
from streamkit.cli import chat as approval
from streamkit.cli import main, normalize, terminal
from streamkit.testing import Call, Reasoning, Reply, Status, serve

KEY = "PLANTED0123456789abcdef"

#: What a terminal must never get: OSC 52 (clipboard), a title, CSI, C1 controls, BEL, backspace, CR, direction marks,
#: line separators, a hyperlink.
HOSTILE = (
    "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[2J\x1b[31m\x9b31m\x9d0;t\x9c\x90\x08\x08\r\x7f\x00"
    "\u202eevil\u202c\u2066x\u2069\u200f\u2028\u2029\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ [red]m[/red] :smile:"
)
ALLOWED = "\n\t"


def check(shown: str | bytes, *, is_marked: bool = True) -> None:
    """Check that the output has no character that a terminal obeys, and that it shows the hostile text as escapes."""
    if isinstance(shown, bytes):
        shown = shown.decode()
    bad = {c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp", "Cs"} and c not in ALLOWED}
    assert not bad
    if is_marked:
        assert "]52;c;" in shown
        assert "[red]m[/red] :smile:" in shown


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    source = f'''
        import sys
        from streamkit.tools import tool

        HOSTILE = {HOSTILE!r}

        def show(text: str = "") -> str:
            """Show."""
            print(f"printed {{HOSTILE}}")  # one write each: the main thread writes, too
            print(f"noted {{HOSTILE}}", file=sys.stderr)
            return "result " + HOSTILE + text

        def fail(text: str = "") -> str:
            """Fail."""
            raise LookupError("https://example.org/?key={KEY} " + HOSTILE + text)

        @tool(describe=lambda state, arguments: "description " + HOSTILE)
        def described(text: str = ""):
            """Describe."""
            yield "progress " + HOSTILE
            yield "done"
    '''
    (tmp_path / "hostile_tools.py").write_text(textwrap.dedent(source))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])


def run_chat(server: Any, provider: str, *more: str) -> int:
    base_url = server.base_url(provider)
    arguments = [part for name in ("show", "fail", "described") for part in ("--tool", f"hostile_tools:{name}")]
    return main(["chat", "--provider", provider, "--model", "m", "--base-url", base_url, *arguments, *more, "Go."])


@pytest.mark.parametrize("provider", ["openai_chat", "anthropic", "gemini"])
def test_chat(provider: str, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [Call(name, {"text": HOSTILE}) for name in ("show", "fail", "described")]
    calls.append(Call(f"unknown{HOSTILE}", {HOSTILE: HOSTILE}))
    with serve([Reply(Reasoning(f"Hm {HOSTILE}"), f"Text {HOSTILE}", *calls), Reply(f"End {HOSTILE}")]) as server:
        assert run_chat(server, provider) == 0
    out, err = capsys.readouterr()
    check(out)
    check(err)
    assert KEY not in out + err
    assert "result \\x1b" in err
    assert "printed \\x1b" in out
    assert "noted \\x1b" in err
    assert "description \\x1b" in err


def test_chat_with_text_in_single_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with serve([Reply(f"Text {HOSTILE}")], delta_size=1) as server:
        assert run_chat(server, "openai_chat") == 0
    check(capsys.readouterr().out)


@pytest.mark.parametrize("provider", ["openai_chat", "anthropic", "gemini"])
def test_chat_with_a_failed_response(provider: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(Status(401, f"the key {KEY} sent to https://u:{KEY}@h/?key={KEY} is wrong {HOSTILE}")) as server:
        assert run_chat(server, provider) == 1
    out, err = capsys.readouterr()
    check(err)
    assert KEY not in out + err
    assert len(err.splitlines()) == 1


def test_chat_with_a_url_that_has_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://user:{KEY}@127.0.0.1:9/v1"
    assert main(["chat", "--provider", "gemini", "--model", "m", "--base-url", url, "Go."]) == 1
    for refused in (f"{url}?key={KEY}", f"ftp://u:{KEY}@h"):
        assert main(["chat", "--provider", "gemini", "--model", "m", "--base-url", refused, "Go."]) == 2
    out, err = capsys.readouterr()
    assert KEY not in out + err
    assert "127.0.0.1:9" in err


def hostile_stream() -> bytes:
    call = {
        "index": 0,
        "id": f"c{HOSTILE}",
        "function": {"name": f"f{HOSTILE}", "arguments": json.dumps({"a": HOSTILE})},
    }
    chunks = [
        chat({"content": HOSTILE, f"field{HOSTILE}": HOSTILE}),
        chat({"reasoning_content": HOSTILE}),
        chat({"tool_calls": [call]}),
        chat({"tool_calls": [{**call, "id": "d", "function": {"name": "g", "arguments": "{" + HOSTILE}}]}),
        chat({}, f"stop{HOSTILE}", model=f"m{HOSTILE}"),
        {"error": {"message": f"https://u:{KEY}@h/?key={KEY} {HOSTILE}", "code": HOSTILE}},
    ]
    return b"".join(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n" for chunk in chunks)


@pytest.mark.parametrize("events", [[], ["--events"]])
def test_normalize(events: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a" + HOSTILE.replace("/", "").replace("\x00", "")
    path = tmp_path / name
    path.write_bytes(hostile_stream())
    (tmp_path / f"{name}.txt").write_bytes(b"\x1b]0;t\x07" + HOSTILE.encode())
    assert main(["normalize", *events, str(path)]) == 0
    out, err = capsys.readouterr()
    check(out, is_marked=False)
    assert KEY not in out + err
    lines = [json.loads(line) for line in out.splitlines()]
    assert all(line["file"] == str(path) for line in lines)
    assert HOSTILE in "".join(line.get("text") or "" for line in lines)  # JSON's own escapes: the value is the same
    assert main(["normalize", *events, f"{path}.txt", f"{path}.missing"]) == 2
    out, err = capsys.readouterr()
    check(err, is_marked=False)
    assert len(err.splitlines()) == 2


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"a{HOSTILE.replace('/', '').replace(chr(0), '')}.json"
    call = {"id": f"c{HOSTILE}", "type": "function", "function": {"name": f"f{HOSTILE}", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "user", "content": HOSTILE},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": f"odd{HOSTILE}", "content": "x"},
    ]
    path.write_text(json.dumps(messages))
    for target in ("anthropic", "gemini", "vercel"):
        assert main(["convert", str(path), "--from", "openai_chat", "--to", target]) == 0
        out, err = capsys.readouterr()
        check(out, is_marked=False)
        check(err, is_marked=False)
        assert HOSTILE in "".join(texts(json.loads(out)))  # JSON's own escapes: the value is the same
    path.write_text("{" + HOSTILE)
    assert main(["convert", str(path), "--from", "openai_chat", "--to", "gemini"]) == 2
    assert main(["convert", str(path), "--from", HOSTILE, "--to", "gemini"]) == 2
    check(capsys.readouterr().err, is_marked=False)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


def test_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from streamkit.cli import demo

    monkeypatch.setattr(demo, "RESPONSE", f"Response {HOSTILE}")
    monkeypatch.setattr(demo, "WEATHER", {"Oslo": HOSTILE, "Bergen": HOSTILE})
    assert main(["demo", "--provider", "openai_chat"]) == 1  # the script's results differ
    out, err = capsys.readouterr()
    check(out)
    check(err, is_marked=False)


def test_arguments_that_argparse_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([HOSTILE], ["convert", "x", "--from", "a", "--to", "b", "--version", HOSTILE], ["chat", HOSTILE]):
        with pytest.raises(SystemExit):
            main(arguments)
    check(capsys.readouterr().err)


def test_tracebacks_and_log_messages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(_: Any) -> int:
        logger = logging.Logger("x")
        logger.addHandler(logging.StreamHandler())
        logger.error("logged %s", HOSTILE)
        raise ZeroDivisionError(f"raised {HOSTILE} https://u:{KEY}@h/?key={KEY}")

    monkeypatch.setattr(normalize, "run", broken)
    assert main(["normalize", "x"]) == 1
    err = capsys.readouterr().err
    check(err)
    assert KEY not in err
    for kind in ("logged", "raised", "ZeroDivisionError"):
        assert kind in err
    assert sys.stderr.__class__ is not terminal.ProtectedStream


# ---------------------------------------------------------------- the question


def question(arguments: Any, name: str = "send") -> str:
    call = ToolCall(id="hist_tool_1", name=name, arguments=arguments, index=0, state="complete", kind="custom")
    return approval.format_question(call)


def test_a_question_cannot_be_spoofed() -> None:
    shown = question({"a": f"\n  {approval.QUESTION}\n? safe_tool {{}}{' ' * 500}? safe_tool {HOSTILE}"})
    check(shown)
    assert len(shown.splitlines()) == 2
    assert " " * 9 not in shown
    assert shown.endswith(f"\n  {approval.QUESTION}")
    check(question({}, name=f"send{HOSTILE}"))


def test_a_question_is_bounded_and_names_what_is_not_shown() -> None:
    shown = question({"text": "x" * 100_000, "to": "the end"})
    assert len(shown) < 5000
    assert "96029 characters are not shown" in shown
    assert "the end" in shown
    assert len(question("\x1b" * 100_000)) < 40_000
    assert len(question({}, name="n" * 100_000)) < 1000


# ---------------------------------------------------------------- functions


def test_escaping_keeps_what_a_terminal_shows() -> None:
    plain = "\u00fc\u263a \U0001f468\u200d\U0001f469 \u00a0\u3000 \u0645\u06cc\u200c\u062e\u0648\u0627 e\u0301\n\tx"
    assert terminal.escape_text(plain) == plain
    assert terminal.escape_json_text(plain.replace("\t", "")) == plain.replace("\t", "")
    assert terminal.escape_text("a\r\nb\rc") == "a\nb\\rc"
    assert terminal.escape_line("a\nb\t\x1b\u202e\U000e0041") == r"a\nb\t\x1b\u202e\U000e0041"
    assert terminal.escape_line("a\nb\t\x1b\u202e\U000e0041").isprintable()


def test_json_is_escaped_by_its_own_rules() -> None:
    value = {"a": HOSTILE + "\U000e0041\ud800"}
    text = terminal.escape_json_text(json.dumps(value, ensure_ascii=False))
    check(text, is_marked=False)
    assert json.loads(text) == value


# ---------------------------------------------------------------- outputs that fail


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize(
    "command",
    [
        ["normalize"],
        *(pytest.param(each, marks=pytest.mark.slow) for each in (["normalize", "--events"], ["convert"], ["demo"])),
    ],
)
def test_a_full_disk_is_an_error_of_the_output(command: list[str], tmp_path: Path) -> None:
    stream = tmp_path / "stream.sse"
    stream.write_bytes(chat_bytes([chat({"content": "Hi"}), chat({}, "stop")]))
    messages = tmp_path / "messages.json"
    messages.write_text('[{"role": "user", "content": "Hi"}]')
    more = {
        "normalize": [str(stream)],
        "convert": [str(messages), "--from", "openai_chat", "--to", "gemini"],
        "demo": ["--provider", "gemini"],
    }[command[0]]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "streamkit.cli", *command, *more], stdout=full, stderr=subprocess.PIPE, check=False
        )
    message = f"streamkit {command[0]}: standard output cannot be written: No space left on device\n"
    assert (done.stderr.decode(), done.returncode) == (message, 1)


def test_an_input_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Failing:
        buffer = property(lambda self: self)

        def read(self, *_: int) -> bytes:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("sys.stdin", Failing())
    assert main(["normalize", "-"]) == 2
    assert capsys.readouterr().err == "-: standard input cannot be read: Input/output error\n"
    assert main(["convert", "-", "--from", "openai_chat", "--to", "gemini"]) == 2
    expected = "streamkit convert: -: standard input cannot be read as JSON: Input/output error\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("command", ["convert", pytest.param("demo", marks=pytest.mark.slow)])
def test_a_closed_output_pipe_is_silent(command: str, tmp_path: Path) -> None:
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps([{"role": "user", "content": "x" * 500_000}]))
    more = (
        [str(messages), "--from", "openai_chat", "--to", "gemini"] if command == "convert" else ["--provider", "gemini"]
    )
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "streamkit.cli", command, *more], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert (done.stderr, done.returncode) == (b"", 0)


@pytest.mark.parametrize(("number", "code"), [(errno.EPIPE, 0), (errno.ENOSPC, 1)])
def test_an_output_that_fails_within_a_task_group(
    number: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reader of `streamkit demo | head` ended while three streams were printed by one task each: a traceback."""

    async def print_in_a_task() -> None:
        raise terminal.OutputError("standard output", OSError(number, os.strerror(number)))

    async def run_tasks() -> int:
        async with anyio.create_task_group(), anyio.create_task_group() as inner:
            inner.start_soon(print_in_a_task)
        return 0

    from streamkit.cli import demo

    monkeypatch.setattr(demo, "run", lambda options: anyio.run(run_tasks))
    monkeypatch.setattr(os, "dup2", lambda *_: None)  # the standard output of the tests
    assert main(["demo"]) == code
    assert capsys.readouterr().err == (
        "streamkit demo: standard output cannot be written: No space left on device\n" if code else ""
    )


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_output_is_left_as_it_is_by_the_stream_that_escapes(is_closed: bool) -> None:
    raw = io.TextIOWrapper(io.BytesIO())
    stream = terminal.ProtectedStream(raw, "standard output")
    if is_closed:
        raw.close()
    stream.close()  # as at its collection, of which Python 3.13 reports the errors
    assert raw.closed == is_closed


def test_a_placeholder_instead_of_a_key_is_not_masked() -> None:
    output = io.StringIO()
    notes = terminal.Notes(output, secrets=["k", "", KEY])
    notes.print(f"streamkit chat: refused {KEY}")
    assert output.getvalue() == "streamkit chat: refused ***\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "gbk"])
def test_what_an_encoding_has_not_is_escaped(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The encoding of a file or a pipe on Windows is not UTF-8; each command that printed text ended there."""
    capture = tmp_path / "c.sse"
    capture.write_bytes(chat_bytes([chat({"content": "é 中 😀"}), chat(finish="stop")]))
    messages = tmp_path / "m.json"
    messages.write_text(json.dumps([{"role": "user", "content": "é 中 😀"}]))
    conversion = ["convert", "--from", "openai_chat", "--to", "anthropic", str(messages)]
    monkeypatch.setenv("COLUMNS", "200")
    for arguments in (["inspect", str(capture)], conversion):
        output = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding=encoding))
        assert main(arguments) == 0
        sys.stdout.flush()
        assert capsys.readouterr().err == ""
        if arguments is conversion:
            assert "é 中 😀" in str(json.loads(output.getvalue()))
        else:
            shown = "é 中 😀".encode(encoding, "backslashreplace")
            assert shown in output.getvalue()
