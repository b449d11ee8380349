"""What Gemini's generateContent refuses.

Wire      https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from streamkit.providers.message_lists import check_chosen_tool, check_message_form
from streamkit.providers.provider import Traits
from streamkit.providers.request_rule import Finding, Json, Rule, as_text_or_none, objects, short_json

__all__ = ["list_rules"]

_MARKS = {"thought", "thoughtSignature", "thought_signature", "videoMetadata", "video_metadata", "partMetadata"}


def _of(holder: Json, camel: str, snake: str) -> Any:
    """A field by either of its names: the API takes both."""
    return holder.get(camel, holder.get(snake))


def _parts(content: Json, camel: str, snake: str) -> list[tuple[int, Any]]:
    found = ((number, _of(part, camel, snake)) for number, part in objects(content.get("parts")))
    return [(number, value) for number, value in found if value is not None]


def _calls(content: Json) -> list[tuple[int, Any]]:
    return _parts(content, "functionCall", "function_call")


def _results(content: Json) -> list[tuple[int, Any]]:
    return _parts(content, "functionResponse", "function_response")


def _names(parts: list[tuple[int, Any]]) -> Counter[str]:
    return Counter(short_json(value.get("name")) for _, value in parts if isinstance(value, dict))


def _form(body: Json, _model: str) -> Iterator[Finding]:
    if isinstance(body.get("contents"), str):  # of the SDKs, not of the wire
        yield "contents", "is text, not a list"
        return
    for at, sentence in check_message_form(
        body, field="contents", content_field="parts", roles=("user", "model"), must_be_list=True, may_be_absent=True
    ):
        number = at.split(".")[1] if at.endswith(".role") else ""
        if number and "role" not in body["contents"][int(number)]:
            continue  # "must be either 'user' or 'model'", or unset
        yield at, sentence


def _not_empty(body: Json, _model: str) -> Iterator[Finding]:
    for place, content in objects(body.get("contents")):
        if content.get("parts") in (None, []):
            yield f"contents.{place}.parts", "must not be empty"


def _data(body: Json, _model: str) -> Iterator[Finding]:
    # An empty text is data: Google's own SDK sends those that ended a stream.
    for place, content in objects(body.get("contents")):
        for number, part in objects(content.get("parts")):
            if not part.keys() - _MARKS:
                yield f"contents.{place}.parts.{number}", "required oneof field 'data' must have one initialized field"


def _objects_only(body: Json, _model: str) -> Iterator[Finding]:
    for place, content in objects(body.get("contents")):
        for (kind, field), parts in (
            (("functionCall", "args"), _calls(content)),
            (("functionResponse", "response"), _results(content)),
        ):
            for number, value in parts:
                at = f"contents.{place}.parts.{number}.{kind}"
                if not isinstance(value, dict) or not as_text_or_none(value.get("name")):
                    yield f"{at}.name", "is no name of a function"
                elif not isinstance(value.get(field, {}), dict):
                    yield f"{at}.{field}", f"is {short_json(value.get(field))}, not an object (a Struct)"


def _call_follows_user(body: Json, _model: str) -> Iterator[Finding]:
    before: Json | None = None
    for place, content in objects(body.get("contents")):
        if _calls(content) and (before is None or before.get("role") == "model"):
            yield (
                f"contents.{place}",
                "a function call turn comes immediately after a user turn or after a function response turn",
            )
        before = content


def _counts(body: Json, _model: str) -> Iterator[Finding]:
    contents = objects(body.get("contents"))
    for (place, content), following in zip(contents, [*contents[1:], (0, {})], strict=False):
        calls = _calls(content)
        if calls and len(calls) != len(_results(following[1])):
            yield (
                f"contents.{place}",
                f"the number of function response parts behind it ({len(_results(following[1]))}) is not equal to "
                f"the number of its function call parts ({len(calls)})",
            )


def _result_names(body: Json, _model: str) -> Iterator[Finding]:
    contents = objects(body.get("contents"))
    for (_, before), (place, content) in pairwise(contents):
        calls, results = _calls(before), _results(content)
        if calls and len(calls) == len(results) and _names(calls) != _names(results):
            yield (
                f"contents.{place}",
                f"answers {', '.join(_names(results))}, but {', '.join(_names(calls))} was called",
            )


def _result_follows_call(body: Json, _model: str) -> Iterator[Finding]:
    before: Json = {}
    for place, content in objects(body.get("contents")):
        if _results(content) and not _calls(before):
            yield f"contents.{place}", "a function response turn comes immediately after a function call turn"
        before = content


def _signed(body: Json, model: str) -> Iterator[Finding]:
    if "gemini-3" not in model.lower():
        return
    contents = objects(body.get("contents"))
    said = [
        index
        for index, (_, content) in enumerate(contents)
        if content.get("role") != "model" and len(_results(content)) < len(objects(content.get("parts")))
    ]
    for place, content in contents[said[-1] if said else 0 :]:  # only the current turn is held to it
        for number, _ in _calls(content)[:1]:
            part = content["parts"][number]
            if not as_text_or_none(_of(part, "thoughtSignature", "thought_signature")):
                yield f"contents.{place}.parts.{number}", "function call is missing a thought_signature"


def _choice(body: Json, _model: str) -> Iterator[Finding]:
    known = {
        name
        for _, tool in objects(body.get("tools"))
        for _, one in objects(_of(tool, "functionDeclarations", "function_declarations"))
        if (name := as_text_or_none(one.get("name"))) is not None
    }
    config = _of(body, "toolConfig", "tool_config")
    calling = _of(config, "functionCallingConfig", "function_calling_config") if isinstance(config, dict) else None
    allowed = _of(calling, "allowedFunctionNames", "allowed_function_names") if isinstance(calling, dict) else None
    for name in allowed if isinstance(allowed, list) else ():
        yield from check_chosen_tool(
            "toolConfig.functionCallingConfig.allowedFunctionNames", as_text_or_none(name), known
        )


_REFERENCE = "https://ai.google.dev/api/caching#Content"
_RULES = (
    Rule("form", _form, _REFERENCE),
    Rule("parts_not_empty", _not_empty, "vercel/ai#3775"),
    Rule("part_has_data", _data, "router-for-me/CLIProxyAPI#1292"),
    Rule("args_and_response_are_objects", _objects_only, "https://ai.google.dev/api/caching#FunctionCall"),
    Rule("call_follows_user", _call_follows_user, "google-gemini/gemini-cli#11814"),
    Rule("as_many_results_as_calls", _counts, "earendil-works/pi#5528, google-gemini/gemini-cli#5443"),
    Rule("result_names_its_call", _result_names, "mozilla-ai/any-llm#1318, archestra-ai/archestra#7585"),
    Rule("result_follows_call", _result_follows_call, "langchain-ai/langchain#27799"),
    Rule("first_call_signed", _signed, "https://ai.google.dev/gemini-api/docs/thought-signatures"),
    Rule("tool_choice_known", _choice, "https://ai.google.dev/api/caching#FunctionCallingConfig"),
)


def list_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES
