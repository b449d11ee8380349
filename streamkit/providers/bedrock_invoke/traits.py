"""Declared facts of Anthropic's Messages in the frames of Amazon Bedrock's InvokeModelWithResponseStream."""

from __future__ import annotations

import re
from dataclasses import replace

from streamkit.providers.anthropic.traits import TRAITS as ANTHROPIC
from streamkit.providers.aws_frames import ERROR_NAMES
from streamkit.providers.endpoint import Endpoint

__all__ = ["TRAITS"]

_STREAM = re.compile(rb":event-type\x07\x00\x05chunk", re.DOTALL)


def _matches_head(head: bytes) -> bool:
    # A body that was not streamed cannot be distinguished from Anthropic's own.
    return head[:1] == b"\0" and _STREAM.search(head) is not None


TRAITS = replace(
    ANTHROPIC,
    name="bedrock_invoke",
    framing="event_stream",
    matches_head=_matches_head,
    event_name_field=None,
    wrapper_event="chunk",
    endpoint=Endpoint(
        base_url="https://bedrock-runtime.us-east-1.amazonaws.com",  # as of bedrock_converse
        base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        path="/model/{model}/invoke-with-response-stream",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        model_in_body=False,
        default_limit=4096,  # Anthropic's models refuse a request without it
        sdk_base_path="",
        route=r"/model/(?P<model>.+)/(?P<verb>invoke(?:-with-response-stream)?)",
        error_name_header="x-amzn-errortype",
        error_names=ERROR_NAMES,
        route_example="/model/{modelId}/invoke-with-response-stream",
        response_id=("msg_bdrk_01", 22),
        call_id=("toolu_bdrk_01", 22),
    ),
)
