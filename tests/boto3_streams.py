"""Bedrock's streams as boto3 reads them, with the service model of ``bedrock-runtime``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.eventstream import EventStream
from botocore.parsers import EventStreamJSONParser

__all__ = ["read_with_boto3", "stream_shape"]


class RawBody:
    """A response's body as botocore reads it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def stream(self) -> Iterator[bytes]:
        yield from (self.data[at : at + 7] for at in range(0, len(self.data), 7))

    def close(self) -> None: ...


def stream_shape(operation: str, member: str) -> Any:
    """Return the shape of an operation's event stream."""
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    return model.operation_model(operation).output_shape.members[member]


def read_with_boto3(data: bytes, operation: str, member: str) -> list[dict[str, Any]]:
    """Return the chunks that boto3 yields for the bytes of an operation's event stream."""
    return list(EventStream(RawBody(data), stream_shape(operation, member), EventStreamJSONParser(), operation))
