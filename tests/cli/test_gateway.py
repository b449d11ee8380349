"""The command ``streamkit gateway``: its arguments, its lines, and a server in a process of its own."""

from __future__ import annotations

import gc
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from waiting import PATIENCE

from streamkit.calls import Usage
from streamkit.cli import main
from streamkit.cli.gateway import (
    ConfiguredUpstream,
    configure_upstream,
    parse_upstream,
    read_config,
    request_limits,
)
from streamkit.cli.serving import logged
from streamkit.cli.terminal import Notes
from streamkit.errors import UsageError
from streamkit.gateway import Exchange, GatewayLimits
from streamkit.gateway.access import hash_key
from streamkit.gateway.logs import format_exchange, log_exchange
from streamkit.testing import Reply, Stall, Status, serve

VARIABLES = (
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "STREAMKIT_GATEWAY_KEY",
    "STREAMKIT_GATEWAY_STATE_KEY",
)
UPSTREAM_KEY = "key-of-the-upstream"
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--provider", "antropic"], "unknown provider 'antropic'"),
        (["--provider", "anthropic"], "set the environment variable ANTHROPIC_API_KEY"),
        (["--provider", "openai_compatible"], "the provider has no usual address: pass base_url (--base-url)"),
        (["--base-url", "ftp://host"], "must begin with http:// or https://"),
        (["--base-url", "http://[::1"], "the base URL is no address: 'http://[::1'"),
        (["--base-url", "http://host:99999"], "the base URL is no address"),
        (["--base-url", "http://host:x"], "the base URL is no address"),
        (["--base-url", "http:///v1"], "the base URL is no address"),
        (["--base-url", "http://"], "the base URL is no address"),
        (["--base-url", "http://ho st"], "the base URL is no address"),
        (["--base-url", "http://host?api-key=secret"], "must end before '?' and '#', since a path is appended"),
        (["--base-url", "http://host/v1/messages/"], "the base URL must end before /v1/messages"),
        (["--model-map", "gpt-5"], "--model-map takes CLIENT=UPSTREAM"),
        (["--host", "0.0.0.0"], "can be reached by other computers: give --require-key as well"),  # noqa: S104
        (["--host", "example.com"], "can be reached by other computers"),
        (["--require-key"], "set the environment variable STREAMKIT_GATEWAY_KEY"),
        (["--base-url", "http://localhost:1"], "cannot be served"),
        (["--upstream", "gemini"], "there is no key for gemini: set the environment variable GEMINI_API_KEY"),
        (["--upstream", "gemini="], "--upstream takes PROVIDER[=URL][#MODEL]"),
        (["--upstream", "gemini=http://localhost:1#"], "--upstream takes PROVIDER[=URL][#MODEL]"),
        (["--upstream", "http://localhost:1"], "unknown provider 'http://localhost:1'"),
        (["--config", "/nothing.toml"], "/nothing.toml cannot be read: No such file"),
        (["--first-event-timeout", "0"], "first-event-timeout must be a number of seconds above 0"),
        (["--head-timeout", "0"], "head-timeout must be a number of seconds above 0"),
        (["--stall-timeout", "-1"], "stall-timeout must be a number of seconds above 0"),
        (["--connections", "0"], "connections must be at least 1, not 0"),
        (["--limit", "size=1"], "--limit takes NAME=N with a name of path, head, body, body_time, bodies, "),
        (["--limit", "body"], "--limit takes NAME=N"),
        (["--limit", "body=x"], "--limit takes NAME=N"),
        (["--limit", "__doc__=1"], "--limit takes NAME=N"),
        (["--limit", "body=1000000000"], "bodies must be at least four times body"),
        (["--limit", "path=0"], "path must be at least 1, not 0"),
        (["--require-key", "--keys", "keys.toml"], "give --require-key, for one key, or --keys FILE, but not both"),
        (["--workers", "0"], "--workers must be at least 1, not 0"),
        (["--workers", "2"], "--workers needs a store that all workers share"),
        (["--workers", "2", "--store", "x.db", "--tap"], "--tap shows the requests of one process"),
        (["--max-body", "1m"], "--limit takes NAME=N with a name of path"),
        (["--max-requests", "0"], "requests must be at least 1, not 0"),
        (["--max-body", "1000000000"], "bodies must be at least four times body"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(capsys, arguments, message):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [*arguments, "--port", str(taken.getsockname()[1])]
        if not {"--provider", "--upstream", "--config"} & set(arguments):
            given += ["--provider", "anthropic"]
            if "--base-url" not in arguments:
                given += ["--base-url", "http://localhost:1"]
        assert main(["gateway", *given]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no upstream: give --provider NAME, --upstream PROVIDER or --config FILE"),
        (["--model", "m", "--upstream", "ollama"], "--base-url, --model and --model-map belong to --provider"),
    ],
)
def test_an_upstream_must_be_given(capsys, arguments, message):
    assert main(["gateway", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "is not TOML"),
        ("", "must consist of tables [[upstream]], each with a provider; it has none"),
        ("upstream = 3", "must consist of tables [[upstream]]"),
        ("upstream = ['sk-a-key']", "upstream 1: it must be a table with a provider"),
        ("port = 1\n[[upstream]]\nprovider = 'ollama'", "tables [[upstream]], each with a provider; it has port"),
        ("[[upstream]]\nmodel = 'm'", "upstream 1: provider must be one of "),
        ("[[upstream]]\nprovider = 'olama'", "upstream 1: unknown provider 'olama'"),
        ("[[upstream]]\nprovider = 'ollama'\n[[upstream]]\nprovider = 1", "upstream 2: provider must be a text, not 1"),
        (
            "[[upstream]]\nprovider = 'ollama'\nurl = 'x'",
            "upstream 1: there is no field 'url': the fields are",
        ),
        ("[[upstream]]\nprovider = 'ollama'\nmodels = 'a'", "upstream 1: models must be a list"),
        ("[[upstream]]\nprovider = 'ollama'\nmodel = 'a'\nmodels = {b = 'c'}", "model, for every name, or models"),
        ("[[upstream]]\nprovider = 'ollama'\nkey-variable = 'MISSING_KEY'", "set the environment variable MISSING_KEY"),
        ("[[upstream]]\nprovider = 'ollama'\nfirst-event-timeout = 'x'", "first-event-timeout must be a number"),
    ],
)
def test_a_file_of_upstreams_is_checked(capsys, tmp_path, text, message):
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    assert main(["gateway", "--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert str(path) in error
    assert "sk-a-key" not in error
    assert message in " ".join(error.split())


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "STREAMKIT_GATEWAY_KEY"])
@pytest.mark.parametrize("key", ["sk-half\nother: header", "sk-cut-by-an-editor…", "sk-\x00"])
def test_a_key_that_no_header_can_have_is_refused_at_the_start(monkeypatch, capsys, variable, key):
    keys = {"ANTHROPIC_API_KEY": "key", "STREAMKIT_GATEWAY_KEY": "key"} | {variable: key}
    for name, value in keys.items():
        monkeypatch.setattr(os, "environ", {**os.environ, name: value})
    assert main(["gateway", "--provider", "anthropic", "--require-key", "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert f"the key in the environment variable {variable} has a character that no key has" in error
    assert "sk-" not in error


def test_a_key_and_a_password_that_are_one_header_are_refused(monkeypatch):
    assert parse_upstream("ollama=http://user:word@host").key is None
    monkeypatch.setenv("OPENAI_API_KEY", "the-key")
    with pytest.raises(UsageError, match="a key and a base URL with a password, which are one header"):
        parse_upstream("openai_compatible=http://user:word@host")


def test_a_key_from_a_file_may_end_with_a_line_end(monkeypatch):
    """Secrets of containers and ``.env`` files have one; aiohttp refuses each request with it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", " the-key\r\n")
    monkeypatch.setenv("OTHER_KEY", "\n")
    assert parse_upstream("anthropic").key == "the-key"
    with pytest.raises(UsageError, match="set the environment variable OTHER_KEY"):
        configure_upstream("anthropic", key_variable="OTHER_KEY")


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("anthropic=https://host/v1/", "https://host"),
        ("gemini=https://host/proxy/v1beta", "https://host/proxy"),
        ("ollama= http://host/api", "http://host"),
        ("openai_compatible=http://host/v1", "http://host/v1"),
        ("openai_compatible=http://host/chat", "http://host/chat"),
    ],
)
def test_a_version_at_the_end_of_a_base_url_is_not_asked_twice(given, address):
    assert parse_upstream(given).address == address


def test_upstreams_of_the_command_line_and_of_a_file(monkeypatch, tmp_path):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "usual")
    monkeypatch.setenv("OTHER_KEY", "own")
    path = tmp_path / "gateway.toml"
    path.write_text(
        """\ufeff
        [[upstream]]
        provider = "anthropic"
        key-variable = "OTHER_KEY"
        models = { "gpt-5" = "claude-sonnet-4-5", "*" = "claude-haiku-4-5" }
        first-event-timeout = 5
        [[upstream]]
        provider = "openai_compatible"
        base-url = "http://localhost:8000/v1/"
        model = "qwen3"
        [[upstream]]
        provider = "ollama"
        models = ["qwen3:8b", "llama*"]
        """
    )
    assert parse_upstream("ollama#qwen3:8b,llama*,small=qwen3:0.6b").models == {
        "qwen3:8b": "qwen3:8b",
        "llama*": "llama*",
        "small": "qwen3:0.6b",
    }
    assert parse_upstream("ollama#gpt-*").models == {"gpt-*": "gpt-*"}
    assert [parse_upstream("anthropic"), parse_upstream("openai_compatible=http://[::1]:1/v1#a#b", 2.5)] == [
        ConfiguredUpstream(provider="anthropic", address="https://api.anthropic.com", key="usual"),
        ConfiguredUpstream(
            provider="openai_compatible",
            address="http://[::1]:1/v1",
            models={"*": "a#b"},
            first_event_timeout=2.5,
        ),
    ]
    assert read_config(str(path), 9.0) == [
        ConfiguredUpstream(
            provider="anthropic",
            address="https://api.anthropic.com",
            key="own",
            models={"gpt-5": "claude-sonnet-4-5", "*": "claude-haiku-4-5"},
            first_event_timeout=5,
        ),
        ConfiguredUpstream(
            provider="openai_compatible",
            address="http://localhost:8000/v1",
            models={"*": "qwen3"},
            first_event_timeout=9.0,
        ),
        ConfiguredUpstream(
            provider="ollama",
            address="http://localhost:11434",
            models={"qwen3:8b": "qwen3:8b", "llama*": "llama*"},
            first_event_timeout=9.0,
        ),
    ]


@pytest.mark.parametrize(
    "arguments", [["--port", "70000"], ["--log-format", "xml"], ["--model", "m", "--model-map", "a=b"]]
)
def test_arguments_are_checked(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["gateway", "--provider", "anthropic", *arguments])
    assert stopped.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_line_describes_a_request():
    exchange = Exchange(
        method="POST",
        path="/v1/messages",
        client="anthropic",
        request_id="req_1",
        status=200,
        provider="gemini",
        model="claude",
        upstream_model="gemini-2.5-pro",
        calls=2,
        usage=Usage(10, 20),
        changes=["a", "b"],
        seconds=1.234,
    )
    assert format_exchange(exchange) == (
        "200  POST  /v1/messages  anthropic > gemini gemini-2.5-pro (claude)  1.23 s  10 in, 20 out  2 calls"
        "  2 changed or left out"
    )


def written(*exchanges: Exchange, as_json: bool = False) -> list[str]:
    """Return the lines that the command writes about exchanges."""
    output = io.StringIO()
    with logged(Notes(output, secrets=["key-of-the-upstream"]), as_json=as_json):
        for exchange in exchanges:
            log_exchange(exchange)
    return output.getvalue().splitlines()


def test_each_change_is_printed_once_below_the_first_request_that_had_it():
    lines = written(
        *(
            Exchange(method="POST", path="/x", client="anthropic", request_id="r", status=200, changes=changes)
            for changes in (["no seed", "no\x1b[1m top_k"], ["no seed"], ["no seed", "no logprobs"])
        )
    )
    assert [line.strip() for line in lines if "200  POST" not in line] == [
        "no seed",
        "no\\x1b[1m top_k",
        "no logprobs",
    ]
    assert ["200  POST" in line for line in lines] == [True, False, False, True, True, False]


def test_a_line_begins_with_the_time_and_the_id_and_no_client_can_add_one():
    path = "/x\n2026-01-01T00:00:00.000Z  req_2  200  POST  /forged"
    lines = written(Exchange(method="POST", path=path, client="anthropic", request_id="req_1", status=200))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  req_1  200  POST  /x", lines[0])
    assert [line.startswith(" ") for line in lines] == [False, True]


def test_a_line_as_json():
    exchange = Exchange(
        method="POST",
        path="/v1/messages/\x7f\x1b[1m\u202e" + "p" * 999,
        client="anthropic",
        request_id="req_1",
        key="ann",
        status=502,
        upstream=1,
        provider="gemini",
        model="claude",
        upstream_model="gemini-2.5-pro",
        usage=Usage(10, 0, raw={"prompt": "a text"}),
        changes=["a", "b"],
        error="transport_error: key-of-the-upstream",
        seconds=1.25,
    )
    (line,) = written(exchange, as_json=True)
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("time"))
    assert found.pop("process") == os.getpid()
    assert found.pop("message").startswith("502  POST  /v1/messages/")
    assert len(found.pop("path")) == 203
    assert found == {
        "level": "warning",
        "logger": "streamkit.gateway.requests",
        "method": "POST",
        "client": "anthropic",
        "request_id": "req_1",
        "key": "ann",
        "status": 502,
        "upstream": 1,
        "provider": "gemini",
        "model": "claude",
        "upstream_model": "gemini-2.5-pro",
        "calls": 0,
        "input_tokens": 10,
        "output_tokens": 0,
        "error": "transport_error: ***",
        "changes": ["a", "b"],
        "seconds": 1.25,
    }
    assert line.isascii()
    assert line.isprintable()
    assert "a text" not in line


def test_a_line_names_the_upstreams_that_failed_before():
    exchange = Exchange(
        method="POST",
        path="/v1/messages",
        client="anthropic",
        request_id="req_1",
        status=200,
        upstream=3,
        provider="gemini",
        upstream_model="g",
        failures=["openai_chat: overloaded: busy", "ollama: transport_error: refused"],
    )
    assert format_exchange(exchange) == (
        "200  POST  /v1/messages  anthropic > gemini g"
        "  upstream 3 after openai_chat: overloaded: busy; ollama: transport_error: refused  0.00 s"
    )


def test_a_line_of_a_request_that_failed():
    exchange = Exchange(
        method="GET", path="/x", client="openai_chat", request_id="r", disconnected=True, error="transport_error: no"
    )
    assert format_exchange(exchange) == "-  GET  /x  0.00 s  the client disconnected  transport_error: no"


def test_a_line_has_a_bounded_length():
    """Clients choose the path and the model."""
    exchange = Exchange(
        method="POST",
        path="/" + "p" * 9999,
        client="openai_chat",
        request_id="r",
        provider="gemini",
        model="m" * 9999,
        upstream_model="u" * 9999,
    )
    cut = [f"/{'p' * 199}...", f"openai_chat > gemini {'u' * 200}... ({'m' * 200}...)"]
    assert format_exchange(exchange) == f"-  POST  {'  '.join(cut)}  0.00 s"


def test_limits_of_requests_are_given_by_name():
    limits = request_limits(["body=1000", "body_time=2.5", "silence=1"])
    assert (limits.body, limits.body_time, limits.silence) == (1000, 2.5, 1.0)
    assert request_limits([]) == GatewayLimits()


@contextmanager
def gateway(base_url: str, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command; yield its process and address."""
    command = [sys.executable, "-m", "streamkit.cli", "gateway", "--provider", "anthropic", "--base-url", base_url]
    process = subprocess.Popen(
        [*command, "--port", "0", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ANTHROPIC_API_KEY": UPSTREAM_KEY, "COLUMNS": "200", **environment},
    )
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        if "json" in arguments:
            while "asks" not in first:  # "recording to ..."
                first = process.stderr.readline()
            first = json.loads(first)["message"]
        found = re.match(r"streamkit gateway: (http://127\.0\.0\.1:\d+) asks anthropic at ", first)
        assert found, first + process.stderr.read()
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def test_a_store_that_cannot_be_opened_is_refused_at_the_start(capsys):
    where, thresholds = (
        ["--provider", "anthropic", "--base-url", "http://localhost:1", "--port", "0"],
        gc.get_threshold(),
    )
    assert main(["gateway", *where, "--store", "/nothing/gateway.db"]) == 2
    assert "--store /nothing/gateway.db cannot be used: unable to open database file" in capsys.readouterr().err
    assert gc.get_threshold() == thresholds  # those of the command are for a process that serves


def test_a_state_key_that_can_be_guessed_is_refused_at_the_start(capsys, monkeypatch):
    monkeypatch.setenv("STREAMKIT_GATEWAY_STATE_KEY", "short")
    assert main(["gateway", "--provider", "anthropic", "--base-url", "http://localhost:1", "--port", "0"]) == 2
    assert "at least 16 bytes" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_it_serves_until_ctrl_c_and_lets_an_open_response_end():
    script = [Reply("Hello ", Stall(2), "there."), Status(401, f"invalid x-api-key: {UPSTREAM_KEY}")]
    with (
        serve(script) as server,
        gateway(server.base_url("anthropic"), "--model", "claude-sonnet-4-5") as (process, url),
    ):
        assert process.stderr is not None
        second = process.stderr.readline()  # ``communicate`` does not read what is buffered already
        assert second == "a restart drops the state of open conversations: --store FILE keeps it\n"
        data = b""
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=BODY, headers={"x-api-key": "mine"}) as response:
            for part in response.iter_bytes():
                if not data:
                    process.send_signal(signal.SIGINT)
                data += part
        assert b"there." in data
        assert data.endswith(b"data: [DONE]\n\n")
        _, written = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "waiting for 1 open response, at most 30 seconds; Ctrl-C again ends at once" in written
    assert "200  POST  /v1/chat/completions  openai_chat > anthropic claude-sonnet-4-5 (m)" in written
    request = server.requests[0]
    assert request.headers["x-api-key"] == UPSTREAM_KEY
    assert request.json["model"] == "claude-sonnet-4-5"
    assert UPSTREAM_KEY not in written


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_a_required_key_and_an_upstream_that_repeats_its_own():
    refused = Status(401, f"invalid x-api-key: {UPSTREAM_KEY}")
    with (
        serve([refused]) as server,
        gateway(server.base_url("anthropic"), "--require-key", STREAMKIT_GATEWAY_KEY="users") as (process, url),
    ):
        path = f"{url}/v1/chat/completions"
        without = httpx.post(path, json=BODY)
        given = httpx.post(path, json=BODY, headers={"authorization": "Bearer users"})
        process.send_signal(signal.SIGINT)
        _, written = process.communicate(timeout=PATIENCE)
    assert (without.status_code, given.status_code, len(server.requests)) == (401, 401, 1)
    assert given.json()["error"]["message"] == "invalid x-api-key: ***"
    assert UPSTREAM_KEY not in written + given.text
    assert "users" not in written
    assert "Traceback" not in written


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_keys_of_a_file_are_read_again_at_a_signal_and_the_log_is_json(tmp_path):
    """A wrong file keeps the keys; each line has the id that the client gets and that is recorded."""
    path, recordings = tmp_path / "keys.toml", tmp_path / "recordings"

    def write(name: str, value: str) -> None:
        path.write_text(f"[[key]]\nname = '{name}'\nhash = '{value}'\nmodels = ['m']\n")

    def lines_of(text: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in text.splitlines() if line]  # Ctrl-C ends with an empty one

    write("ann", hash_key("the-first-key"))
    arguments = ["--keys", str(path), "--log-format", "json", "--record", str(recordings)]
    script = [Reply("Hello."), Reply("Hello.")]
    with serve(script) as server, gateway(server.base_url("anthropic"), *arguments) as (process, url):
        assert process.stderr is not None

        def ask(key: str, model: str = "m") -> httpx.Response:
            body = {**BODY, "model": model}
            return httpx.post(f"{url}/v1/chat/completions", json=body, headers={"x-api-key": key})

        def reload() -> dict[str, Any]:
            process.send_signal(signal.SIGHUP)
            while True:
                line = json.loads(process.stderr.readline())
                if "request_id" not in line and "keys" in line["message"]:
                    return line

        first, refused, unknown = ask("the-first-key"), ask("the-first-key", "other"), ask("the-second-key")
        write("ann", "the-second-key")
        kept = reload()
        assert ask("the-second-key").status_code == 401
        write("bob", hash_key("the-second-key"))
        read = reload()
        second, gone = ask("the-second-key"), ask("the-first-key")
        process.send_signal(signal.SIGINT)
        _, written = process.communicate(timeout=PATIENCE)
    assert [response.status_code for response in (first, refused, unknown, second, gone)] == [200, 403, 401, 200, 401]
    assert kept["level"] == "warning"
    assert kept["message"].startswith(f"the keys stay as they were: {path}, key 1: hash must be 'sha256:'")
    assert (read["level"], read["message"]) == ("info", "the keys were read again")
    requests = {line["request_id"]: line for line in lines_of(written) if "request_id" in line}
    id_of = second.headers["x-request-id"]
    assert {"key": "bob", "status": 200, "model": "m"}.items() <= requests[id_of].items()
    assert "Hello." not in written
    assert "the-second-key" not in written
    recorded = [json.loads(file.read_text()) for file in recordings.glob("*.exchange.json")]
    assert {response.headers["x-request-id"] for response in (first, refused, unknown, second, gone)} <= {
        facts["request_id"] for facts in recorded
    }


def test_an_upstream_is_shown_with_the_models_that_it_names() -> None:
    upstream = parse_upstream("anthropic=http://127.0.0.1:9#claude-*,fast=claude-haiku-4-5")
    assert upstream.title == "anthropic at http://127.0.0.1:9 for claude-*, fast"
    assert parse_upstream("anthropic=http://127.0.0.1:9#m").title == "anthropic at http://127.0.0.1:9"
    many = parse_upstream("anthropic=http://127.0.0.1:9#" + ",".join(f"m{number}" for number in range(20)))
    assert many.title.endswith(" for m0, m1, m2, m3, m4, m5, m6, m7, ...")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_the_next_upstream_answers_and_the_line_names_it():
    with serve([Status(529, "Overloaded")]) as first, serve(["Hello."]) as second:
        other = second.base_url("ollama")
        with gateway(first.base_url("anthropic"), "--upstream", f"ollama={other}#m") as (process, url):
            assert process.stderr is not None
            listed = process.stderr.readline()
            response = httpx.post(f"{url}/v1/chat/completions", json=BODY)
            process.send_signal(signal.SIGINT)
            _, written = process.communicate(timeout=PATIENCE)
    assert "Hello." in response.text
    assert listed == f"upstream 2, if those before it fail or name no such model: ollama at {other}\n"
    assert "disconnected" not in written
    assert "openai_chat > ollama m  upstream 2 after anthropic: overloaded: Overloaded" in written


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")
def test_it_serves_on_though_nobody_reads_its_lines():
    """As after ``2>&1 | head``: each connection ended with its first request."""
    with serve(["Hello."] * 3) as server, gateway(server.base_url("anthropic")) as (process, url):
        assert process.stderr is not None
        process.stderr.close()
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
        for _ in range(3):
            connection.request("POST", "/v1/chat/completions", json.dumps(BODY))
            response = connection.getresponse()
            assert b"Hello." in response.read()
        connection.close()
        process.stderr = None
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE)
