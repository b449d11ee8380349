"""Every program of docs/cookbook runs as its page has it, in a process of its own, against the embedded server.

A program gets its key and the address of its model from the environment variables that its page names.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import httpx
import pytest
from programs import PYTHON
from shared_data import ROOT
from test_docs import headings, slug
from ui_message_client import find_faults, read_chunks, read_message

from streamkit.testing import Call, Reply, Server, Status, serve

COOKBOOK = ROOT / "docs" / "cookbook"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(COOKBOOK.glob("*.md"))}
PROGRAM = re.compile(r'^```(?:python|html) title="([\w.]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
#: The programs of all pages, by the name of the file that a page gives them.
PROGRAMS = {name: code for page in PAGES.values() for name, code in PROGRAM.findall(page)}
#: The variables with the address of each provider, which the pages name.
ADDRESSES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "bedrock_converse": "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    "cohere": "CO_API_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
    "mistral": "MISTRAL_URL",
    "ollama": "OLLAMA_HOST",
    "openai_chat": "OPENAI_BASE_URL",
    "openai_responses": "OPENAI_BASE_URL",
}
KEYS = ["ANTHROPIC_API_KEY", "CO_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "OPENAI_API_KEY"]
#: What a person has with a key of each provider; the region is boto3's.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ADDRESSES.values()},
    **dict.fromkeys(KEYS, "any"),
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "any",
    "AWS_DEFAULT_REGION": "us-east-1",
    "STATE_SECRET": "a long and random secret",
}
if PYTHON is None:
    ENVIRONMENT["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
#: Of google-genai with aiohttp, whatever a program does.
FOREIGN_WARNING = "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
WEATHER = (Reply("Let me look.", Call("get_weather", {"city": "Oslo"})), Reply("Take an umbrella."))


class Cookbook:
    """The programs in a folder, and the model that they ask."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.environment = dict(ENVIRONMENT)
        for name, code in PROGRAMS.items():
            (folder / name).write_text(code, encoding="utf-8")

    def play(self, *script: Any, providers: Sequence[str] = ("anthropic",)) -> Server:
        """Start the model that the programs ask, with the replies of a conversation."""
        server = self._stack.enter_context(serve(script))
        for provider in providers:
            self.environment[ADDRESSES[provider]] = server.base_url(provider)
        return server

    def start(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Start Python with a program or a module, with warnings as errors."""
        started = subprocess.Popen(
            [PYTHON or sys.executable, "-W", "error", "-W", FOREIGN_WARNING, *command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self._stack.enter_context(started)
        self._stack.callback(started.kill)
        return started

    def run(self, *command: str, entered: str = "", status: int = 0) -> str:
        """Run a program to its end and return what it prints; of one that fails what it reports."""
        process = self.start(*command)
        output, errors = process.communicate(entered, timeout=60)
        assert process.returncode == status, errors
        return output if status == 0 else errors

    def serve(self, application: str) -> httpx.Client:
        """Serve an application as its page does, with uvicorn, and return a client of it."""
        with socket.create_server(("127.0.0.1", 0)) as listening:  # then the program's alone: if that ends, so does it
            self.start("-m", "uvicorn", application, "--fd", str(listening.fileno()), pass_fds=[listening.fileno()])
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        return self._stack.enter_context(httpx.Client(base_url=url, timeout=20))


@pytest.fixture
def cookbook(tmp_path: Path) -> Iterator[Cookbook]:
    with ExitStack() as stack:
        yield Cookbook(tmp_path, stack)


def need(*modules: str) -> None:
    """Skip the test of a program whose packages are missing, as ``optional_packages`` does."""
    for module in modules:
        import_module(module)


# ---------------------------------------------------------------- the pages


def test_each_page_has_a_short_program_and_what_belongs_to_it() -> None:
    assert len(PAGES) == 16  # fifteen tasks and the index
    for name, page in PAGES.items():
        assert page.split("\n\n")[1].startswith("You will "), name
        if name != "index":
            assert [line for line in page.splitlines() if line.startswith("## ")] == [
                "## Run it",
                "## Look at",
                "## Errors",
            ], name
            assert f"({name}.md)" in PAGES["index"]
    assert {name: len(code.splitlines()) for name, code in PROGRAMS.items() if len(code.splitlines()) >= 60} == {}


def test_each_program_has_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    started = set(re.findall(r'"(\w+(?:\.py|\.html|:app))"', source))
    assert {name for name in PROGRAMS if not {name, name.replace(".py", ":app")} & started} == set()


def test_each_link_resolves() -> None:
    for page in PAGES.values():
        for target in re.findall(r"\]\(([^)\s]+)\)", PROGRAM.sub("", page)):
            path, _, anchor = target.partition("#")
            if "://" not in target:
                text = (COOKBOOK / path).read_text(encoding="utf-8")
                assert not anchor or anchor in map(slug, headings(text)), target


# ---------------------------------------------------------------- programs that end by themselves

SDKS = ["openai_chat", "openai_responses", "anthropic", "gemini", "mistral", "cohere", "ollama"]
MODULES = {"openai_chat": "openai", "openai_responses": "openai", "gemini": "google.genai", "mistral": "mistralai"}


@pytest.mark.parametrize("provider", SDKS)
def test_sdks(cookbook: Cookbook, provider: str) -> None:
    need(MODULES.get(provider, provider))
    server = cookbook.play(*WEATHER, providers=[provider])
    if provider == "mistral":  # its SDK appends the version itself
        cookbook.environment["MISTRAL_URL"] = server.base_url("mistral").removesuffix("/v1")
    assert cookbook.run("sdks.py", provider) == "answered Take an umbrella.\n"
    assert len(server.requests) == 2


def test_bedrock(cookbook: Cookbook) -> None:
    need("boto3")
    server = cookbook.play(*WEATHER, providers=["bedrock_converse"])
    assert cookbook.run("bedrock.py") == "answered Take an umbrella.\n"
    assert len(server.requests) == 2


def rows_of(cookbook: Cookbook, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(cookbook.folder / "chats.db")) as connection:
        return connection.execute(query).fetchall()


def test_switching(cookbook: Cookbook) -> None:
    server = cookbook.play(*WEATHER, Reply("A blue one."), Reply("Any."), providers=["anthropic", "gemini"])
    assert cookbook.run("switching.py", "trip", "anthropic", "Umbrella?") == "Take an umbrella.\n"
    assert cookbook.run("switching.py", "trip", "gemini", "Which colour?") == "A blue one.\n"
    asked = json.dumps(server.requests[2].json)
    assert "functionCall" in asked
    assert "7 degrees" in asked
    cookbook.environment["ANTHROPIC_API_KEY"] = ""
    assert cookbook.run("switching.py", "other", "gemini", "Which one?") == "Any.\n"
    rows = rows_of(cookbook, "SELECT chat FROM contents ORDER BY id")
    assert [chat for (chat,) in rows] == ["trip"] * 6 + ["other"] * 2


def test_switching_stores_nothing_of_a_failure(cookbook: Cookbook) -> None:
    cookbook.play(Status(401, "the key is wrong"))
    assert "the key is wrong" in cookbook.run("switching.py", "trip", "anthropic", "Umbrella?", status=1)
    assert rows_of(cookbook, "SELECT count(*) FROM contents") == [(0,)]


def test_later(cookbook: Cookbook) -> None:
    calls = Reply(Call("find", {"pattern": "*.tmp"})), Reply(Call("delete", {"path": "build/a.tmp"}))
    server = cookbook.play(*calls, Reply("It is kept."), providers=["openai_responses"])
    output = cookbook.run("later.py", "ask", "Delete", "what was built.")
    assert "waits for you: delete({'path': 'build/a.tmp'})" in output
    assert "awaiting_approval" in output
    stored = (cookbook.folder / "waiting.json").read_text()
    (cookbook.folder / "waiting.json").write_text(stored.replace("build/a.tmp", "notes.txt"))
    assert "the state was changed after it was signed" in cookbook.run("later.py", "yes", status=1)
    (cookbook.folder / "waiting.json").write_text(stored)
    assert cookbook.run("later.py", "no", "Keep it until Friday.") == "answered It is kept.\n"
    assert "Keep it until Friday." in json.dumps(server.requests[2].json)
    assert "FileNotFoundError" in cookbook.run("later.py", "yes", status=1)
    assert "usage:" in cookbook.run("later.py", "perhaps", status=1)


def test_terminal(cookbook: Cookbook) -> None:
    call = Call("write_file", {"name": "haiku.txt", "text": "Rain on the window"})
    cookbook.play(Reply("I write.", call, Call("write_file", '{"name": "cut')), Reply("Done."))
    output = cookbook.run("terminal.py")
    for shown in ("I write.", "write_file", "Rain on the window", "wrote 18 characters", "Done.", "answered"):
        assert shown in output
    assert [path.name for path in (cookbook.folder / "written").iterdir()] == ["haiku.txt"]


def test_testing(cookbook: Cookbook) -> None:
    assert "7 passed" in cookbook.run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "test_agent.py"
    )


def test_structured(cookbook: Cookbook) -> None:
    recipe = {"title": "Soup", "ingredients": [{"name": "salt", "grams": -1}], "steps": ["Cut.", "Boil."]}
    wrong = json.dumps(recipe)
    right = wrong.replace("-1", "12.5")
    server = cookbook.play(Reply(wrong), Reply(right), providers=["openai_responses"])
    lines = cookbook.run("structured.py", "soup").splitlines()
    assert lines == [*["next step: Cut.", "next step: Boil."] * 2, "Soup: 2 steps, 12.5 g, in 2 rounds"]
    assert "greater than 0" in json.dumps(server.requests[1].json)
    cookbook.play(Reply(wrong), Reply(wrong), Reply(wrong), providers=["openai_responses"])
    assert "the third answer does not fit either" in cookbook.run("structured.py")
    cookbook.play(Status(401, "the key is wrong"), providers=["openai_responses"])
    assert "the key is wrong" in cookbook.run("structured.py")


def test_budget(cookbook: Cookbook) -> None:
    search = Reply(Call("search", {"query": "rain"}))
    server = cookbook.play(
        Status(401, "the key is wrong"), search, Reply("Nothing."), providers=["anthropic", "gemini"]
    )
    output = cookbook.run("budget.py")
    assert "provider_fallback" in output
    assert "answered after 2 rounds" in output
    assert [request.provider for request in server.requests] == ["anthropic", "gemini", "gemini"]
    cookbook.play(Status(401, "one"), Status(401, "two"), providers=["anthropic", "gemini"])
    assert "no answer: " in cookbook.run("budget.py")


def test_mcp(cookbook: Cookbook) -> None:
    need("mcp")
    calls = Call("tell_time", {"zone": "Europe/Nowhere"}), Call("set_alarm", {"time": "7:00"})
    cookbook.play(Reply(*calls), Reply("It is set."))
    command = ["mcp_agent.py", "Wake me at seven.", PYTHON or sys.executable, "clock_server.py"]
    output = cookbook.run(*command, entered="y\n")
    assert "tools: tell_time, set_alarm" in output
    assert "tell_time failed:" in output
    assert "set_alarm returned {'result': 'the alarm rings at 7:00'}" in output
    assert output.endswith("It is set.\n")
    assert "usage:" in cookbook.run("mcp_agent.py", "Wake me.", status=1)


def test_double(cookbook: Cookbook) -> None:
    process = cookbook.start("double.py")
    assert process.stdout is not None
    lines = [process.stdout.readline().split() for _ in range(5)]
    for name, _, value in (each.partition("=") for line in lines for each in line[1:]):
        cookbook.environment[name] = value
    assert cookbook.run("switching.py", "trip", "gemini", "Umbrella?") == "Take an umbrella.\n"
    process.communicate("\n", timeout=60)
    assert process.returncode == 0


@contextmanager
def http_server(respond: Callable[[str, bytes], bytes]) -> Iterator[str]:
    """Serve what a function returns for the path and the body of a request, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = respond(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_own_provider(cookbook: Cookbook) -> None:
    streams: list[list[dict[str, Any]]] = [
        [{"call": 1, "name": "get_weather"}, {"call": 1, "more": '{"city": '}, {"call": 1, "more": '"Oslo"}'}],
        [{"text": "Take "}, {"news": 1}, {"text": "one."}],
    ]
    ends: Iterator[dict[str, Any]] = iter([{"end": "calls"}, {"end": "done"}])
    asked: list[dict[str, Any]] = []

    def respond(path: str, body: bytes) -> bytes:
        assert path == "/chat"
        asked.append(json.loads(body))
        return b"".join(json.dumps(line).encode() + b"\n" for line in [*streams[len(asked) - 1], next(ends)])

    with http_server(respond) as url:
        cookbook.environment["ACME_URL"] = url
        assert cookbook.run("own_provider.py") == "answered Take one.\n"
    assert [tool["name"] for tool in asked[0]["tools"]] == ["get_weather"]
    assert asked[1]["messages"][-1]["blocks"][0]["result"] == "Oslo: 7 degrees, rain"


def test_traces(cookbook: Cookbook) -> None:
    need("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
    protocol = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    spans: dict[str, Any] = {}

    def collect(path: str, body: bytes) -> bytes:
        assert path == "/v1/traces"
        for resource in protocol.ExportTraceServiceRequest.FromString(body).resource_spans:
            spans.update({span.name: span for scope in resource.scope_spans for span in scope.spans})
        return b""

    cookbook.play(*WEATHER)
    with http_server(collect) as url:
        cookbook.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
        assert cookbook.run("traces.py") == "answered Take an umbrella.\n"
    names = ["invoke_agent weather", "chat claude-sonnet-5", "execute_tool get_weather", "read the sensor"]
    assert sorted(spans) == sorted(names)
    assert spans["read the sensor"].parent_span_id == spans["execute_tool get_weather"].span_id


# ---------------------------------------------------------------- the worker that is stopped


def read_until(stream: IO[str] | None, text: str) -> None:
    """Read a program's output up to a line with a text."""
    assert stream is not None
    for line in stream:
        if text in line:
            return
    raise AssertionError(f"no line has {text!r}")


def test_worker(cookbook: Cookbook) -> None:
    mail = Call("send_mail", {"to": "ann@example.com", "text": "7 up"})
    server = cookbook.play(Reply(Call("collect", {"topic": "week"})), Reply(mail), Reply("Ann has it."))
    command = ["worker.py", "report-7", "Collect and mail."]
    cookbook.environment["SECONDS"] = "600"
    stopped = cookbook.start(*command)
    read_until(stopped.stdout, "tool_running collect")
    stopped.send_signal(signal.SIGINT)
    stopped.communicate(timeout=60)
    assert len(server.requests) == 1
    cookbook.environment["SECONDS"] = "0"
    output = cookbook.run(*command)
    assert output.startswith("goes on with ")
    assert output.endswith("answered Ann has it.\n")
    assert cookbook.run(*command).endswith("answered Ann has it.\n")
    assert len(server.requests) == 3
    assert (cookbook.folder / "sent.txt").read_text().count("ann@example.com: 7 up") == 1


# ---------------------------------------------------------------- applications


def test_approvals(cookbook: Cookbook) -> None:
    need("fastapi")
    calls = Call("pay", {"to": "Ann", "amount": 40}), Call("pay", {"to": "Bob", "amount": 9000})
    server = cookbook.play(Reply(*calls), Reply("Ann is paid."), Status(401, "the key is wrong"))
    client = cookbook.serve("approvals:app")
    started = client.post("/runs", json={"text": "Pay 40 to Ann and 9000 to Bob."}).json()
    assert started["ended"] == "awaiting_approval"
    path = f"/runs/{started['run']}/approvals"
    ann, bob = (pending["call"] for pending in started["pending"])
    refused = client.post(path, json={"another": True})
    assert (refused.status_code, "no call 'another' awaits approval" in refused.text) == (422, True)
    assert client.post("/runs/another/approvals", json={ann: True}).status_code == 404
    waiting = client.post(path, json={ann: True}).json()
    assert [pending["call"] for pending in waiting["pending"]] == [bob]
    ended = client.post(path, json={bob: False}).json()
    assert (ended["ended"], ended["text"], ended["pending"]) == ("answered", "Ann is paid.", [])
    assert client.post(path, json={bob: True}).status_code == 404
    assert "paid 40 to Ann" in json.dumps(server.requests[1].json)
    failed = client.post("/runs", json={"text": "Pay."})
    assert (failed.status_code, "the key is wrong" in failed.text) == (502, True)


def test_usechat(cookbook: Cookbook) -> None:
    need("fastapi")
    cookbook.play(Reply("I pay.", Call("pay", {"to": "Ann", "amount": 40})), Reply("It is paid."), Status(401))
    client = cookbook.serve("chat:app")
    assert client.get("/").text == PROGRAMS["chat.html"]
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Pay 40 to Ann."}]}
    chunks = read_chunks(client.post("/api/chat", json={"id": "c1", "messages": [question]}).content)
    assert find_faults(chunks, 6) == []
    message = read_message(chunks)
    part = message["parts"][-1]
    assert part["state"] == "approval-requested"
    part.update(state="approval-responded", approval={**part["approval"], "approved": True})
    body = {"id": "c1", "messages": [question, message]}
    chunks = read_chunks(client.post("/api/chat", json=body).content)
    assert find_faults(chunks, 6) == []
    assert "paid 40 to Ann" in json.dumps(chunks)
    assert "It is paid." in json.dumps(chunks)
    assert client.post("/api/chat", json={"messages": 3}).status_code == 400
    failed = read_chunks(client.post("/api/chat", json={"id": "c2", "messages": [question]}).content)
    assert "error" in [chunk["type"] for chunk in failed]


def test_ag_ui(cookbook: Cookbook) -> None:
    need("ag_ui", "fastapi")
    cookbook.play(Reply(Call("pay", {"to": "Ann", "amount": 40})), Reply("It is paid."))
    client = cookbook.serve("agent:app")
    body = {"threadId": "t", "runId": "r1", "messages": [{"id": "1", "role": "user", "content": "Pay 40 to Ann."}]}

    def post(**more: Any) -> list[dict[str, Any]]:
        response = client.post("/agent", json={**body, **more})
        assert response.status_code == 200, response.text
        return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]

    (interrupt,) = post()[-1]["outcome"]["interrupts"]
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    events = post(runId="r2", resume=[answer])
    assert events[-1]["type"] == "RUN_FINISHED"
    assert "paid 40 to Ann" in json.dumps(events)
    assert client.post("/agent", json={**body, "runId": "r3", "resume": [answer]}).status_code == 400
    assert client.post("/agent", json={"threadId": 3}).status_code == 400


def test_gateway(cookbook: Cookbook) -> None:
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed (extra 'dev')")
    server = cookbook.play(Reply("From Gemini."), Status(429, "slow down"), providers=["gemini"])
    client = cookbook.serve("gateway:app")
    sdk = anthropic.Anthropic(base_url=str(client.base_url), api_key="another", max_retries=0)
    asked = {"max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
    assert sdk.messages.create(model="claude-haiku-4-5", **asked).content[0].text == "From Gemini."
    assert "gemini-2.5-flash" in server.requests[0].path
    assert server.requests[0].headers["x-goog-api-key"] == "any"
    with pytest.raises(anthropic.RateLimitError, match="slow down"):
        sdk.messages.create(model="claude-sonnet-5", **asked)
    assert "gemini-2.5-pro" in server.requests[1].path
