"""Declared facts of Anthropic's Messages in the frames of Amazon Bedrock's InvokeModelWithResponseStream."""

from __future__ import annotations

from msgspec.structs import replace

from streamkit.providers.anthropic.traits import ERRORS as ANTHROPIC_ERRORS
from streamkit.providers.anthropic.traits import TRAITS as ANTHROPIC
from streamkit.providers.contract.traits import Endpoint
from streamkit.providers.decoding.detection import HeadChunk, HeadMatcher
from streamkit.providers.writing.aws_frames import ERROR_NAMES, ERRORS

__all__ = ["TRAITS"]


def _is_own(chunk: HeadChunk) -> bool:
    # A body that was not streamed cannot be distinguished from Anthropic's own.
    body = chunk.data if chunk.name == "chunk" else chunk.data.get("chunk")
    return isinstance(body, dict) and (isinstance(body.get("bytes"), str) or chunk.framing == "event_stream")


TRAITS = replace(
    ANTHROPIC,
    name="bedrock_invoke",
    framing="event_stream",
    matches_head=HeadMatcher(_is_own),
    shared_fields={},
    event_name_field=None,
    wrapper_event="chunk",
    # as in the chunks of Chat Completions; the keys of the other formats are unique in a stream
    reuses_slots=True,
    second_key="function_call",
    classify_error=(ANTHROPIC_ERRORS + ERRORS).classify,
    endpoint=Endpoint(
        base_url="https://bedrock-runtime.us-east-1.amazonaws.com",  # as of bedrock_converse
        base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        path="/model/{model}/invoke-with-response-stream",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        model_in_body=False,
        default_limit=4096,  # Anthropic's models refuse a request without it
        sdk_base_path="",
        route=r"/model/(?P<model>.+)/(?P<verb>invoke(?:-with-response-stream)?)",
        request_id_header="x-amzn-requestid",
        limit_headers=(),
        error_name_header="x-amzn-errortype",
        error_names=ERROR_NAMES,
        route_example="/model/{modelId}/invoke-with-response-stream",
        further_paths={},
        models_path=None,
        response_id=("msg_bdrk_01", 22),
        call_id=("toolu_bdrk_01", 22),
    ),
)
