"""A provider's error means the same in bytes and in the exceptions by which the official SDKs report it.

Before a stream, an SDK raises the response that rejected the request. Within a stream, it raises the event that reports
the error: with the status 200 of the response, or without a response.
"""

from __future__ import annotations

from typing import Any

import pytest
from sdk_clients import SDKS, sdk_of

from streamkit import Content, StreamInterrupted, Turn, read, run_loop
from streamkit.bridges.http import connect
from streamkit.calls import StreamError
from streamkit.reading.source_failure import is_io_failure
from streamkit.testing import ErrorEvent, Reply, Status, serve

CODES = {429: "rate_limited", 503: "overloaded", 401: "unauthorized", 404: "not_found"}
EARLY = {f"rejected with {status}": Status(status, "Come back later.") for status in CODES}
EVENTS = {status: ErrorEvent(Status(status, "Come back later.")) for status in (429, 503)}
FIRST = {f"{status} as the first event": Reply(event) for status, event in EVENTS.items()}
LATE = {f"{status} in the stream": Reply("Hm.", event) for status, event in EVENTS.items()}


async def error_by_bytes(provider: str, answer: Any) -> StreamError:
    with serve(lambda _: answer, strict=False) as server:
        return await error_of(provider, connect(provider, model="m", base_url=server.base_url(provider)))


async def error_by_sdk(provider: str, answer: Any) -> StreamError:
    with serve(lambda _: answer, strict=False) as server, sdk_of(provider)(server.base_url(provider)) as ask:
        return await error_of(provider, lambda _: ask("m"))


async def error_of(provider: str, ask: Any) -> StreamError:
    with pytest.raises(StreamInterrupted) as raised:
        await run_loop(ask, provider=provider, history=[Content.human("Weather?")], retries=0)
    return raised.value.error


@pytest.mark.parametrize(
    ("name", "code"),
    [("ServiceQuotaExceededException", "quota_exceeded"), ("ModelNotReadyException", "overloaded")],
)
@pytest.mark.asyncio  # boto3 blocks, so the event loop makes no difference
async def test_the_name_that_aws_gives_an_error_counts_before_its_status(name: str, code: str) -> None:
    answer = Status(400, "Come back later.", code=name)
    for provider in ("bedrock_converse", "bedrock_invoke"):
        for error in (await error_by_bytes(provider, answer), await error_by_sdk(provider, answer)):
            assert (error.code, error.message) == (code, "Come back later.")


def test_an_exception_that_botocore_does_not_know_within_a_stream_has_only_a_name() -> None:
    from botocore.exceptions import EventStreamError

    turn = Turn("bedrock_converse")
    turn.feed({"messageStart": {"role": "assistant"}})
    turn.close(EventStreamError({"Error": {"Code": "resourceNotFoundException", "Message": ""}}, "ConverseStream"))
    assert turn.error is not None
    assert (turn.error.kind, turn.error.code) == ("provider_error", "not_found")
    assert turn.error.message == "resourceNotFoundException"


def test_a_text_in_another_exception_is_no_error_of_the_provider() -> None:
    class ConnectionLost(Exception):
        error = "the peer has gone"

    turn = Turn("openai_chat")
    turn.close(ConnectionLost())
    assert turn.error is not None
    assert turn.error.kind == "transport_error"


def test_a_rejection_that_botocore_has_not_parsed_has_the_name_of_its_header() -> None:
    from botocore.exceptions import ClientError

    headers = {"x-amzn-errortype": "ServiceQuotaExceededException:http://example.com/"}
    response: Any = {"ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": headers}}
    turn = Turn("bedrock_converse")
    for event in read(turn, Rejected(ClientError(response, "ConverseStream"))):
        assert event.type == "failed"
    assert turn.error is not None
    assert (turn.error.code, turn.error.status) == ("quota_exceeded", 400)


class Rejected:
    """A source that raises before its first input."""

    def __init__(self, exception: Exception) -> None:
        self.exception = exception

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        raise self.exception


def test_failed_connections_of_botocore_are_failures_and_its_wrong_parameters_are_defects() -> None:
    from botocore import exceptions

    for failure in (
        exceptions.EndpointConnectionError(endpoint_url="https://example.com"),
        exceptions.ConnectTimeoutError(endpoint_url="https://example.com"),
        exceptions.ConnectionClosedError(endpoint_url="https://example.com"),
        exceptions.ReadTimeoutError(endpoint_url="https://example.com"),
    ):
        assert is_io_failure(failure)
    for defect in (exceptions.NoCredentialsError(), exceptions.ParamValidationError(report="no messages")):
        assert not is_io_failure(defect)


@pytest.mark.slow
@pytest.mark.parametrize("answer", [*EARLY, *FIRST, *LATE])
@pytest.mark.parametrize("provider", ["openai_chat", *SDKS])
@pytest.mark.asyncio  # some SDKs document asyncio alone
async def test_an_error_means_the_same_in_bytes_and_as_an_exception(provider: str, answer: str) -> None:
    script: Any = {**EARLY, **FIRST, **LATE}[answer]
    by_bytes = await error_by_bytes(provider, script)
    by_sdk = await error_by_sdk(provider, script)
    assert (by_bytes.kind, by_bytes.message) == ("provider_error", "Come back later.")
    if answer in EARLY:
        assert by_bytes.code == CODES[script.status]
    assert (by_sdk.kind, by_sdk.message, by_sdk.code) == (by_bytes.kind, by_bytes.message, by_bytes.code)
