"""Who may ask a gateway: the keys of a file, their models, and the hooks of a program."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from gateway.gateway_clients import CLIENTS, client_of
from gateway.test_gateway_limits import QUESTION, gateway

from streamkit.errors import UsageError
from streamkit.gateway import Exchange, MemoryStore, Refusal
from streamkit.gateway.access import hash_key, read_keys

pytestmark = pytest.mark.anyio

ANN, BOB = "key-of-ann-0123456789", "key-of-bob-0123456789"


def key_file(path: Path, ann: str = "ann", models: str = "") -> str:
    """Write a file with the keys of Ann, by default for all models, and of Bob."""
    tables = [
        f'[[key]]\nname = "{ann}"\nhash = "{hash_key(ANN)}"\n{models}\n',
        f'[[key]]\nname = "bob"\nhash = "{hash_key(BOB)}"\nmodels = ["gpt-*", "m", "claude-x[1m]"]\n',
    ]
    path.write_text("\n".join(tables))
    return str(path)


async def test_each_key_of_the_file_is_known_by_its_name(tmp_path: Path) -> None:
    app, requests, reports = gateway(keys=key_file(tmp_path / "keys.toml"))
    async with client_of(app) as client:
        statuses = [
            (await client.post("/v1/messages", json=QUESTION, headers=headers)).status_code
            for headers in (
                {"x-api-key": ANN},
                {"authorization": f"Bearer {BOB}"},
                {"x-api-key": hash_key(ANN)},
                {"x-api-key": "sha256:"},
                {"x-api-key": ""},
                {"x-api-key": "\u00e4".encode()},
                {},
            )
        ]
    assert statuses == [200, 200, 401, 401, 401, 401, 401]
    assert [report.key for report in reports] == ["ann", "bob", *[None] * 5]
    assert len(requests) == 2
    assert ANN not in repr(reports)


@pytest.mark.parametrize("client_name", sorted(CLIENTS))
async def test_a_model_that_a_key_may_not_ask_is_refused_in_the_words_of_the_wire(
    tmp_path: Path, client_name: str
) -> None:
    path, body = CLIENTS[client_name]
    app, requests, reports = gateway(keys=key_file(tmp_path / "keys.toml", models='models = ["another-*"]'))
    async with client_of(app) as client:
        response = await client.post(path, json=body, headers={"authorization": f"Bearer {ANN}"})
    assert response.status_code == 403
    assert "this key may not ask the model 'm'" in response.text
    assert requests == []
    assert (reports[0].key, reports[0].model) == ("ann", "m")
    if client_name == "anthropic":
        assert response.json()["error"]["type"] == "permission_error"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "gpt-5"}, 200),
        ({"model": "claude-x[1m]"}, 200),  # as Claude Code asks for a long context; no set of characters
        ({"model": "claude-xm"}, 403),
        ({"model": "GPT-5"}, 403),
        ({"model": "m", "models": ["gpt-5", "claude-opus"]}, 403),  # OpenRouter's fallbacks
        ({"model": "m", "tools": [{"type": "image_generation", "model": "gpt-5"}]}, 200),
        ({"model": "m", "tools": [{"type": "advisor_20260301", "name": "advisor", "model": "claude-opus"}]}, 403),
        ({}, 403),
        ({"model": 3}, 403),
    ],
)
async def test_the_models_of_a_key_are_names_and_patterns(tmp_path: Path, body: Any, status: int) -> None:
    app, requests, _ = gateway("openai_chat", keys=key_file(tmp_path / "keys.toml"), models={"*": "up"})
    asked = {**{name: QUESTION[name] for name in ("max_tokens", "messages")}, **body}
    async with client_of(app) as client:
        response = await client.post("/v1/chat/completions", json=asked, headers={"x-api-key": BOB})
    assert (response.status_code, len(requests)) == (status, status == 200), response.text


async def test_a_key_lists_and_counts_the_models_alone_that_it_may_ask(tmp_path: Path) -> None:
    app, requests, _ = gateway(keys=key_file(tmp_path / "keys.toml"), models={"gpt-5": "a", "claude-x": "b"})
    counted = {**QUESTION, "model": "claude-x"}
    async with client_of(app) as client:
        lists = [
            [each["id"] for each in (await client.get("/v1/models", headers={"x-api-key": key})).json()["data"]]
            for key in (ANN, BOB)
        ]
        one = await client.get("/v1/models/claude-x", headers={"x-api-key": BOB})
        count = await client.post("/v1/messages/count_tokens", json=counted, headers={"x-api-key": BOB})
    assert lists == [["gpt-5", "claude-x"], ["gpt-5"]]
    assert (one.status_code, count.status_code, requests) == (404, 403, [])


async def test_what_is_kept_is_of_the_key_that_it_was_made_for(tmp_path: Path) -> None:
    """A response of Ann's continues her conversation alone, also if her key has another name now."""
    store, body = MemoryStore(), {"model": "m", "input": "hi", "store": True}
    app, _, _ = gateway(keys=key_file(tmp_path / "keys.toml"), store=store)
    async with client_of(app) as client:

        async def ask(key: str, fields: Mapping[str, Any]) -> httpx.Response:
            return await client.post("/v1/responses", json={**body, **fields}, headers={"x-api-key": key})

        first = (await ask(ANN, {})).json()["id"]
        statuses = [(await ask(key, {"previous_response_id": first})).status_code for key in (BOB, ANN)]
        key_file(tmp_path / "keys.toml", ann="anne")
        app.reload_keys()
        statuses.append((await ask(ANN, {"previous_response_id": first})).status_code)
    single, _, _ = gateway(key=ANN, store=store)
    async with client_of(single) as client:
        statuses.append((await ask(ANN, {"previous_response_id": first})).status_code)
    assert statuses == [404, 200, 200, 200]


async def test_a_file_is_read_again_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    app, _, _ = gateway(keys=key_file(path))

    async def status_of(key: str) -> int:
        async with client_of(app) as client:
            return (await client.post("/v1/messages", json=QUESTION, headers={"x-api-key": key})).status_code

    path.write_text("[[key]]\nname = 'ann'\n")
    with pytest.raises(UsageError, match="key 1: hash must be 'sha256:'"):
        app.reload_keys()
    assert [await status_of(ANN), await status_of("third")] == [200, 401]
    path.write_text(f"[[key]]\nname = 'third'\nhash = '{hash_key('third')}'\n")
    app.reload_keys()
    assert [await status_of(ANN), await status_of("third")] == [401, 200]
    path.unlink()
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        app.reload_keys()
    assert await status_of("third") == 200


GOOD = f'name = "a"\nhash = "{hash_key("a")}"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"must consist of tables \[\[key\]\], each with a name and a hash; it has none"),
        ("x = [", "is not TOML"),
        ("[[key]]\n" + GOOD + "[[upstream]]\n", "it has upstream"),
        ("key = ['the-key-itself']", "key 1: it must be a table with a name and a hash"),
        ("[[key]]\nname = 'a'\nhash = 'the-key-itself'", "key 1: hash must be 'sha256:' and 64 hexadecimal digits"),
        ("[[key]]\n" + GOOD + "key = 'the-key-itself'", "key 1: there is no field 'key'"),
        ("[[key]]\nhash = 'x'", "key 1: name must be a text of at most 100 letters"),
        ('[[key]]\nname = "a\\nb"', "key 1: name must be"),
        ("[[key]]\n" + GOOD + "models = 'gpt-5'", "key 1: models must be a list of names"),
        ("[[key]]\n" + GOOD + "metrics = 1", "key 1: metrics must be true or false, not 1"),
        ("[[key]]\n" + GOOD + "[[key]]\n" + GOOD, "key 2: it has the name of key 'a'"),
        ("[[key]]\n" + GOOD + "[[key]]\n" + GOOD.replace('"a"\n', '"b"\n', 1), "key 2: it has the hash of key 'a'"),
    ],
)
async def test_a_file_of_keys_is_checked(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message) as refused:
        read_keys(path)
    assert str(refused.value).startswith(str(path))
    assert "itself" not in str(refused.value)


async def test_one_key_and_a_file_are_not_both_taken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one key, or a file of keys, but not both"):
        gateway(key="k", keys=key_file(tmp_path / "keys.toml"))


# ---------------------------------------------------------------- the hooks


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_program_decides_about_each_request_that_would_reach_an_upstream(
    tmp_path: Path, is_async: bool
) -> None:
    seen: list[tuple[str | None, str, str | None, str | None]] = []

    def decide(exchange: Exchange, headers: Mapping[str, str]) -> bool | Refusal:
        seen.append((exchange.key, exchange.client, exchange.model, headers.get("x-team")))
        if exchange.key == "bob":
            return Refusal("the budget of bob is used up", 429, retry_after=3600)
        return headers.get("x-team") == "red"

    async def decide_later(exchange: Exchange, headers: Mapping[str, str]) -> bool | Refusal:
        await anyio.lowlevel.checkpoint()
        return decide(exchange, headers)

    hook = decide_later if is_async else decide
    app, requests, reports = gateway(keys=key_file(tmp_path / "keys.toml"), authorize=hook)
    async with client_of(app) as client:
        allowed, denied, limited = [
            await client.post("/v1/messages", json=QUESTION, headers={"x-api-key": key, "x-team": team})
            for key, team in ((ANN, "red"), (ANN, "blue"), (BOB, "red"))
        ]
        await client.get("/v1/models", headers={"x-api-key": BOB})
    assert seen == [
        ("ann", "anthropic", "m", "red"),
        ("ann", "anthropic", "m", "blue"),
        ("bob", "anthropic", "m", "red"),
    ]
    assert [response.status_code for response in (allowed, denied, limited)] == [200, 403, 429]
    assert denied.json()["error"] == {"type": "permission_error", "message": "this request is not allowed"}
    assert limited.json()["error"] == {"type": "rate_limit_error", "message": "the budget of bob is used up"}
    assert limited.headers["retry-after"] == "3600"
    assert len(requests) == 1
    assert reports[2].error == "the budget of bob is used up"


@pytest.mark.parametrize("result", [None, "yes", 1, ConnectionError("db: password=s3cret")])
async def test_a_hook_that_fails_lets_no_request_through(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    def decide(exchange: Exchange, headers: Mapping[str, str]) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    app, requests, _ = gateway(authorize=decide)
    async with client_of(app) as client:
        response = await client.post("/v1/messages", json=QUESTION)
    assert (response.status_code, requests) == (503, [])
    assert response.json()["error"]["message"] == "this gateway cannot check requests at present"
    assert "authorize" in caplog.text
    assert "s3cret" not in response.text + caplog.text


async def test_what_a_hook_at_the_end_does_harms_no_request(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    async def fail_later(exchange: Exchange) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(exchange.status)
        raise ConnectionError("the database is away")

    def fail(exchange: Exchange) -> None:
        seen.append(exchange.status)
        raise ConnectionError("the database is away")

    for hook in (fail_later, fail):
        app, _, _ = gateway()
        app._observe = hook
        async with client_of(app) as client:
            assert (await client.post("/v1/messages", json=QUESTION)).status_code == 200
    assert seen == [200, 200]
    assert caplog.text.count("observe has failed") == 2


async def test_a_hook_that_waits_too_long_is_canceled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("streamkit.gateway.operation._OBSERVE_TIME", 0.01)
    app, _, _ = gateway()
    app._observe = lambda exchange: anyio.sleep_forever()
    async with client_of(app) as client:
        assert (await client.post("/v1/messages", json=QUESTION)).status_code == 200
    assert [record.levelno for record in caplog.records if "observe has taken" in record.message] == [logging.WARNING]


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(UsageError, match="from 400 to 599, not 200"):
        Refusal("no", 200)


@pytest.mark.skipif(os.name == "nt", reason="a message of POSIX")
def test_a_file_that_is_missing_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"keys\.toml cannot be read: No such file or directory"):
        gateway(keys=tmp_path / "keys.toml")
