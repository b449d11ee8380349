"""``streamkit gateway --workers``: conversations over two workers with Redis, and workers that end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cli.test_gateway import gateway
from gateway.redis_server import redis_server
from gateway.test_kept_state import FUNCTION, chat
from gateway.three_rounds import SIGNATURES
from prometheus_client.parser import text_string_to_metric_families
from waiting import PATIENCE, wait_until

from streamkit.testing import Call, Reasoning, Reply, Server, Stall, serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the processes are found in /proc"),
]

CALL = Call("weather", {"city": "Oslo"})


def signatures(server: Server, number: int) -> list[str]:
    """Return the signatures of a request, in the order in which the upstream gets them."""
    sent: Any = server.requests[number].json
    blocks = [block for message in sent["messages"] if message["role"] == "assistant" for block in message["content"]]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def workers_of(process: int) -> set[int]:
    return {int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()}


def state_of(process: int) -> str:
    """Return the state of a process in one letter, Z for one that has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def is_serving(worker: int) -> bool:
    """Return whether a worker has an event loop."""
    try:
        return any("eventpoll" in os.readlink(each) for each in Path(f"/proc/{worker}/fd").iterdir())
    except FileNotFoundError:  # it is closing one, or has ended
        return False


class Workers:
    """The two workers of a gateway: all but one are stopped while that one is asked."""

    def __init__(self, process: int) -> None:
        self.process = process  # that has started them

    @contextmanager
    def only(self, worker: int) -> Iterator[None]:
        """Have one worker take every request."""
        others = workers_of(self.process) - {worker}
        for each in others:
            os.kill(each, signal.SIGSTOP)
        wait_until(lambda: all(state_of(each) == "T" for each in others))
        try:
            yield
        finally:
            for each in others:
                os.kill(each, signal.SIGCONT)

    def running(self) -> list[int]:
        """Return both workers, when they serve."""
        wait_until(lambda: len(found := workers_of(self.process)) == 2 and all(map(is_serving, found)))
        return sorted(workers_of(self.process))


@contextmanager
def two_workers(base_url: str, store: str, *arguments: str) -> Iterator[tuple[Workers, str, Callable[[], list[Any]]]]:
    """Yield the workers of a gateway, its address, and what ends it and returns its log."""
    options = ["--workers", "2", "--store", store, "--model", "claude-sonnet-4-5", "--log-format", "json", *arguments]
    with gateway(base_url, *options) as (process, url):

        def end() -> list[Any]:
            process.send_signal(signal.SIGTERM)
            _, written = process.communicate(timeout=PATIENCE)
            assert process.returncode == -signal.SIGTERM
            return [json.loads(line) for line in written.splitlines()]

        yield Workers(process.pid), url, end


def test_a_conversation_goes_on_when_its_worker_is_killed_within_a_stream() -> None:
    script = [
        Reply(Reasoning("One city.", signature=SIGNATURES[0]), CALL),
        Reply(Reasoning("Again.", signature=SIGNATURES[1]), "The first ", Stall(60), "half."),
        Reply(Reasoning("Again.", signature=SIGNATURES[1]), CALL),
        Reply("Cold."),
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Which is colder?"}]
    with (
        redis_server() as store,
        serve(script) as server,
        two_workers(server.base_url("anthropic"), store, "--metrics") as (workers, url, end),
    ):
        first, second = workers.running()
        with workers.only(first):
            assert chat(url, messages)
        body = {"model": "m", "messages": messages, "tools": [FUNCTION], "reasoning_effort": "high", "stream": True}
        with workers.only(second), httpx.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
            parts = response.iter_bytes()
            while b"The first " not in next(parts):
                pass
            os.kill(second, signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                list(parts)
        wait_until(lambda: second not in workers_of(workers.process))
        third = next(each for each in workers.running() if each != first)
        with workers.only(first):  # the client asks again
            assert chat(url, messages)
        with workers.only(third):  # which was started in place of the second
            assert not chat(url, messages)

        def figures() -> dict[str, float]:
            families = text_string_to_metric_families(httpx.get(f"{url}/metrics").text)
            return {sample.name: sample.value for family in families for sample in family.samples}

        # Of three that have ended; of the worker that was killed one had not, and is not open either.
        wait_until(lambda: figures()["streamkit_gateway_requests_total"] == 3)
        open_requests = figures()["streamkit_gateway_open_requests"]
        log = end()
    assert [signatures(server, number) for number in range(1, 4)] == [
        [SIGNATURES[0]],
        [SIGNATURES[0]],
        [*SIGNATURES],
    ]
    # In any order: a worker may be stopped after its response and before its line.
    lines = sorted((line["process"], line["status"]) for line in log if "status" in line)
    assert lines == sorted([(first, 200), (first, 200), (third, 200)])
    assert f"worker {second} has ended by signal SIGKILL: another one is started" in [line["message"] for line in log]
    assert open_requests == 0


def test_responses_and_carried_state_are_those_of_both_workers(tmp_path: Path) -> None:
    """With the file of SQLite: by ``previous_response_id``, and in the client's own field."""
    script = [Reply(Reasoning("One city.", signature=SIGNATURES[0]), CALL)] * 2 + [Reply("Cold.")] * 2
    with (
        serve(script) as server,
        two_workers(server.base_url("anthropic"), str(tmp_path / "gateway.db")) as (workers, url, end),
    ):
        first, second = workers.running()
        tools = [{"type": "function", "name": "weather", "parameters": FUNCTION["function"]["parameters"]}]
        fields = {"model": "m", "tools": tools, "reasoning": {"effort": "high"}}
        with workers.only(first):
            stored = httpx.post(f"{url}/v1/responses", json={**fields, "input": "Which is colder?"}).json()
            carried = httpx.post(
                f"{url}/v1/responses",
                json={**fields, "input": "Which?", "store": False, "include": ["reasoning.encrypted_content"]},
            ).json()
        with workers.only(second):
            for body, before in (
                ({"previous_response_id": stored["id"]}, stored),
                ({"store": False}, carried),
            ):
                call = next(item for item in before["output"] if item["type"] == "function_call")
                result = {"type": "function_call_output", "call_id": call["call_id"], "output": "4 degrees"}
                everything = [{"role": "user", "content": "Which?"}, *before["output"], result]
                items = [result] if before is stored else everything
                response = httpx.post(f"{url}/v1/responses", json={**fields, **body, "input": items})
                assert response.status_code == 200, response.text
        log = end()
    assert [signatures(server, number) for number in (2, 3)] == [[SIGNATURES[0]]] * 2
    assert sorted(line["process"] for line in log if "status" in line) == [first, first, second, second]


def test_the_workers_end_with_the_process_that_has_started_them(tmp_path: Path) -> None:
    with (
        serve([]) as server,
        gateway(server.base_url("anthropic"), "--workers", "2", "--store", str(tmp_path / "gateway.db")) as (
            process,
            url,
        ),
    ):
        found = Workers(process.pid).running()
        assert httpx.get(f"{url}/ready").json() == {"status": "ready"}
        process.kill()
        wait_until(lambda: all(state_of(each) == "Z" for each in found))


def test_ctrl_c_lets_the_responses_of_all_workers_end(tmp_path: Path) -> None:
    with (
        serve([Reply("Hello ", Stall(2), "there.")]) as server,
        two_workers(server.base_url("anthropic"), str(tmp_path / "gateway.db")) as (workers, url, end),
    ):
        workers.running()
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        data = b""
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
            for part in response.iter_bytes():
                if not data:
                    os.kill(workers.process, signal.SIGTERM)
                data += part
        assert data.endswith(b"data: [DONE]\n\n")
        log = end()
    assert [line["status"] for line in log if "status" in line] == [200]


def test_workers_that_cannot_start_end_the_command(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text("[[key]]\nname = 'ann'\n")
    arguments = ["--workers", "2", "--store", str(tmp_path / "x.db"), "--keys", str(path)]
    with (
        pytest.raises(AssertionError, match=r"key 1: hash must be 'sha256:' and 64 hexadecimal digits"),
        gateway("http://localhost:1", *arguments),
    ):
        pytest.fail("it serves")
