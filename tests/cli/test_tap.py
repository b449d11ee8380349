"""The command ``streamkit tap``, and ``--tap`` and ``--record`` of the gateway, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from waiting import wait_until

from streamkit.cli import main
from streamkit.cli.serving import is_loopback, listen
from streamkit.testing import Reply, Stall, serve

KEY = "key-without-a-known-form"
BODY = {"model": "m", "stream": True, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of this kind are POSIX")


@contextmanager
def command(*arguments: str, lines: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run a command; yield its process and its first lines."""
    environment = {**os.environ, "ANTHROPIC_API_KEY": KEY, "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "streamkit.cli", *arguments], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stderr is not None
        yield process, [process.stderr.readline().strip() for _ in range(lines)]
    finally:
        process.kill()
        process.communicate()


def address(line: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert found, line
    return found[0]


def report_of(page: str, text: str) -> str:
    """Return the report of the first exchange, once it has a text."""

    def shown() -> str | None:
        report = httpx.get(f"{page}/exchanges/1.html").text
        return report if text in report else None

    report = wait_until(shown)
    assert report is not None
    return report


def recorded(folder: Path, suffix: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob(f"*{suffix}"))]


@pytest.mark.slow
def test_a_tap_shows_and_records_what_passes(tmp_path: Path) -> None:
    arguments = ["--port", "0", "--tap-port", "0", "--record", str(tmp_path / "rec")]
    with (
        serve([Reply("Hello ", Stall(0.5), "there.")], delta_size=100) as server,
        command("tap", "--provider", "anthropic", "--base-url", server.base_url("anthropic"), *arguments, lines=3) as (
            process,
            (page, folder, passing),
        ),
    ):
        assert folder == f"recording to {tmp_path / 'rec'}"
        assert passing.endswith(f"passes to anthropic at {server.base_url('anthropic')}")
        headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
        data = b""
        with httpx.stream("POST", f"{address(passing)}/v1/messages", json=BODY, headers=headers) as response:
            for part in response.iter_bytes():
                data += part
        report = report_of(address(page), "there.")
        with httpx.stream("GET", f"{address(page)}/events"):  # a viewer that stays
            process.send_signal(signal.SIGINT)
            _, written = process.communicate(timeout=20)
    assert process.returncode == 130
    assert written.strip() == ""
    assert server.requests[0].headers["x-api-key"] == KEY
    assert b"there." in data
    assert "there." in report
    assert KEY not in report
    assert recorded(tmp_path / "rec", ".response.sse") == [data]
    (facts,) = recorded(tmp_path / "rec", ".exchange.json")
    assert json.loads(facts)["provider"] == "anthropic"
    assert KEY.encode() not in b"".join(recorded(tmp_path / "rec", ""))


@pytest.mark.slow
def test_a_gateway_shows_and_records_and_its_disk_may_fail(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    arguments = ["--port", "0", "--tap", "0", "--record", str(folder), "--model", "claude-x"]
    with (
        serve([Reply("Hello.")] * 3, delta_size=100) as server,
        command(
            "gateway", "--provider", "anthropic", "--base-url", server.base_url("anthropic"), *arguments, lines=3
        ) as (
            process,
            (page, _, serving),
        ),
    ):
        url = f"{address(serving)}/v1/chat/completions"
        seen = [httpx.post(url, json=BODY).text]
        report = report_of(address(page), "Hello.")
        wait_until(lambda: recorded(folder, ".exchange.json"))
        files = recorded(folder, "")
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        seen += [httpx.post(url, json=BODY).text for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, written = process.communicate(timeout=20)
    assert all("Hello." in text and text.endswith("data: [DONE]\n\n") for text in seen)
    assert len(files) == 3
    assert json.loads(next(file for file in files if b"upstream_model" in file))["upstream_model"] == "claude-x"
    assert "claude-x" in report
    assert written.count("ExchangeFolder failed") == 1
    assert "Traceback" not in written
    assert KEY not in report + written


@pytest.mark.parametrize("name", ["gateway", pytest.param("tap", marks=pytest.mark.slow)])
def test_sigterm_ends_it_with_the_recordings_written(name: str, tmp_path: Path) -> None:
    """The files are written beside the response, so much of a long one waits when the client has its last byte."""
    folder = tmp_path / "rec"
    arguments = ["--port", "0", "--record", str(folder), *(["--tap-port", "0"] if name == "tap" else [])]
    with serve([Reply("word " * 20_000)], delta_size=5) as server:
        upstream = ["--provider", "anthropic", "--base-url", server.base_url("anthropic")]
        with command(name, *upstream, *arguments, lines=3 if name == "tap" else 2) as (process, lines):
            data = httpx.post(f"{address(lines[-1])}/v1/messages", json=BODY, timeout=60).content
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert data.count(b"event: content_block_delta") == 20_000
    assert len(recorded(folder, ".exchange.json")) == 1
    (response,) = recorded(folder, ".response.sse")
    assert response.endswith(b'{"type":"message_stop"}\n\n')


def test_what_cannot_work_is_refused_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    upstream = ["--provider", "anthropic", "--base-url", "http://localhost:1"]
    with listen("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert main(["tap", *upstream, "--port", "0", "--tap-port", port]) == 2
        reason = "another program serves it, so give another one"
        assert f"port {port} of 127.0.0.1 cannot be served: {reason}\n" in capsys.readouterr().err
        assert main(["tap", *upstream, "--port", port]) == 2
        assert "cannot be served" in capsys.readouterr().err
    file = tmp_path / "file"
    file.touch()
    assert main(["tap", *upstream, "--port", "0", "--tap-port", "0", "--record", str(file)]) == 2
    assert "cannot be a folder of recordings" in capsys.readouterr().err
    assert main(["tap", "--provider", "openai_compatible"]) == 2
    assert "pass base_url (--base-url)" in capsys.readouterr().err


@pytest.mark.parametrize("proxy", ["socks9://127.0.0.1:1", "http://[::"])
def test_a_proxy_that_cannot_be_used_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    assert main(["tap", "--provider", "anthropic", "--port", "0", "--tap-port", "0"]) == 2
    assert "a proxy of the environment cannot be used: " in capsys.readouterr().err


def test_hosts_of_this_computer() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "10.0.0.1", "example.com")] == [
        True, True, True, False, False,
    ]  # fmt: skip
