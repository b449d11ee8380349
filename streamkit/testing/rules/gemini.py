"""The requests that Gemini's generateContent refuses.

https://ai.google.dev/api/generate-content

Each rule reports the places of a body that break it. A rule must not raise an exception for a body of another form:
that is reported by the rule ``form``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, TypeAlias

from streamkit.providers.gemini.schema import PART_METADATA
from streamkit.providers.provider import Traits
from streamkit.testing.rules.rule import (
    Finding,
    Json,
    Rule,
    as_text_or_none,
    check_chosen_tool,
    check_message_form,
    objects,
    short_json,
)

__all__ = ["build_rules"]

#: The value of one field of each part that has it, with the index of the part.
_Values: TypeAlias = list[tuple[int, Any]]

#: The fields of a part that are not its data.
_NON_DATA_FIELDS = {"thought", "thoughtSignature", "thought_signature", "video_metadata", *PART_METADATA}


def build_rules(traits: Traits) -> tuple[Rule, ...]:
    """Return the rules of this provider, in the order in which they are checked."""
    return _RULES


def _field(data: Any, camel_case: str, snake_case: str) -> Any:
    """Return the value of a field, which the API accepts in either spelling; None if there is none."""
    return data.get(camel_case, data.get(snake_case)) if isinstance(data, dict) else None


def _find_values(content: Json, camel_case: str, snake_case: str) -> _Values:
    values = [(number, _field(part, camel_case, snake_case)) for number, part in objects(content.get("parts"))]
    return [(number, value) for number, value in values if value is not None]


def _find_calls(content: Json) -> _Values:
    return _find_values(content, "functionCall", "function_call")


def _find_results(content: Json) -> _Values:
    return _find_values(content, "functionResponse", "function_response")


def _count_names(values: _Values) -> Counter[str]:
    return Counter(short_json(value.get("name")) for _, value in values if isinstance(value, dict))


def _messages_have_form(body: Json, _model: str) -> Iterator[Finding]:
    if isinstance(body.get("contents"), str):  # allowed by the SDKs, not by the wire
        yield "contents", "is text, not a list"
        return
    for path, sentence in check_message_form(
        body,
        field="contents",
        content_field="parts",
        roles=("user", "model", "function"),
        must_be_list=True,
        may_be_absent=True,
    ):
        index = path.split(".")[1] if path.endswith(".role") else ""
        if index and "role" not in body["contents"][int(index)]:
            continue  # "must be either 'user' or 'model'", or unset
        yield path, sentence


def _results_have_role_user(body: Json, model: str) -> Iterator[Finding]:
    version = re.search(r"gemini-(\d+)(?:\.(\d+))?", model.lower())
    if version is None or (int(version[1]), int(version[2] or 0)) < (3, 5):
        return  # earlier models accept the role, which an earlier version of the reference used
    for index, content in objects(body.get("contents")):
        if content.get("role") == "function":
            yield f"contents.{index}.role", "role 'function' is not supported; use 'user'"


def _parts_are_not_empty(body: Json, _model: str) -> Iterator[Finding]:
    for index, content in objects(body.get("contents")):
        if content.get("parts") in (None, []):
            yield f"contents.{index}.parts", "must not be empty"


def _parts_have_data(body: Json, _model: str) -> Iterator[Finding]:
    # An empty text is data: Google's own SDK sends those that ended a stream.
    for index, content in objects(body.get("contents")):
        for number, part in objects(content.get("parts")):
            if not part.keys() - _NON_DATA_FIELDS:
                yield f"contents.{index}.parts.{number}", "required oneof field 'data' must have one initialized field"


def _arguments_and_responses_are_objects(body: Json, _model: str) -> Iterator[Finding]:
    for index, content in objects(body.get("contents")):
        for kind, field, values in (
            ("functionCall", "args", _find_calls(content)),
            ("functionResponse", "response", _find_results(content)),
        ):
            for number, value in values:
                path = f"contents.{index}.parts.{number}.{kind}"
                if not isinstance(value, dict) or not as_text_or_none(value.get("name")):
                    yield f"{path}.name", "is not the name of a function"
                elif not isinstance(value.get(field, {}), dict):
                    yield f"{path}.{field}", f"is {short_json(value.get(field))}, not an object (a Struct)"


def _calls_follow_user(body: Json, _model: str) -> Iterator[Finding]:
    previous: Json | None = None
    for index, content in objects(body.get("contents")):
        if _find_calls(content) and (previous is None or previous.get("role") == "model"):
            yield (
                f"contents.{index}",
                "a function call turn comes immediately after a user turn or after a function response turn",
            )
        previous = content


def _counts_are_equal(body: Json, _model: str) -> Iterator[Finding]:
    contents = objects(body.get("contents"))
    for (index, content), (_, following) in zip(contents, [*contents[1:], (0, {})], strict=False):
        call_count, result_count = len(_find_calls(content)), len(_find_results(following))
        if call_count and call_count != result_count:
            yield (
                f"contents.{index}",
                f"the number of function response parts in the next content ({result_count}) is not equal to the "
                f"number of its function call parts ({call_count})",
            )


def _results_name_their_calls(body: Json, _model: str) -> Iterator[Finding]:
    for (_, previous), (index, content) in pairwise(objects(body.get("contents"))):
        calls, results = _find_calls(previous), _find_results(content)
        call_names, result_names = _count_names(calls), _count_names(results)
        if calls and len(calls) == len(results) and call_names != result_names:
            yield f"contents.{index}", f"has results of {', '.join(result_names)} for calls of {', '.join(call_names)}"


def _results_follow_calls(body: Json, _model: str) -> Iterator[Finding]:
    previous: Json = {}
    for index, content in objects(body.get("contents")):
        if _find_results(content) and not _find_calls(previous):
            yield f"contents.{index}", "a function response turn comes immediately after a function call turn"
        previous = content


def _first_calls_are_signed(body: Json, model: str) -> Iterator[Finding]:
    """Yield unsigned first calls since the last message of a person; earlier ones may be unsigned."""
    if "gemini-3" not in model.lower():
        return
    contents = objects(body.get("contents"))
    start = 0
    for position, (_, content) in enumerate(contents):
        if content.get("role") != "model" and len(_find_results(content)) < len(objects(content.get("parts"))):
            start = position
    for index, content in contents[start:]:
        for number, _ in _find_calls(content)[:1]:
            if not as_text_or_none(_field(content["parts"][number], "thoughtSignature", "thought_signature")):
                yield f"contents.{index}.parts.{number}", "function call is missing a thought_signature"


def _chosen_tool_is_defined(body: Json, _model: str) -> Iterator[Finding]:
    names = {
        name
        for _, tool in objects(body.get("tools"))
        for _, declaration in objects(_field(tool, "functionDeclarations", "function_declarations"))
        if (name := as_text_or_none(declaration.get("name"))) is not None
    }
    config = _field(_field(body, "toolConfig", "tool_config"), "functionCallingConfig", "function_calling_config")
    allowed = _field(config, "allowedFunctionNames", "allowed_function_names")
    for name in allowed if isinstance(allowed, list) else ():
        yield from check_chosen_tool(
            "toolConfig.functionCallingConfig.allowedFunctionNames", as_text_or_none(name), names
        )


_REFERENCE = "https://ai.google.dev/api/caching#Content"
_RULES = (
    Rule("form", _messages_have_form, _REFERENCE),
    Rule(
        "results_have_role_user",
        _results_have_role_user,
        "sashiko-dev/sashiko#500, firebase/quickstart-ios#1871; accepted before: spring-projects/spring-ai#866",
    ),
    Rule("parts_not_empty", _parts_are_not_empty, "vercel/ai#3775"),
    Rule("part_has_data", _parts_have_data, "router-for-me/CLIProxyAPI#1292"),
    Rule(
        "args_and_response_are_objects",
        _arguments_and_responses_are_objects,
        "https://ai.google.dev/api/caching#FunctionCall",
    ),
    Rule("call_follows_user", _calls_follow_user, "google-gemini/gemini-cli#11814"),
    Rule("as_many_results_as_calls", _counts_are_equal, "earendil-works/pi#5528, google-gemini/gemini-cli#5443"),
    Rule("result_names_its_call", _results_name_their_calls, "mozilla-ai/any-llm#1318, archestra-ai/archestra#7585"),
    Rule("result_follows_call", _results_follow_calls, "langchain-ai/langchain#27799"),
    Rule("first_call_signed", _first_calls_are_signed, "https://ai.google.dev/gemini-api/docs/thought-signatures"),
    Rule("tool_choice_known", _chosen_tool_is_defined, "https://ai.google.dev/api/caching#FunctionCallingConfig"),
)
