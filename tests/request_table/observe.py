"""What happens to each row at each other provider: found by writing the request there with and without it.

`EXACT`: the same value is in the target's body. `TRANSLATED`: the body has it in another form. `WORDS`: the model reads
all of it as text. `LEFT_OUT`: the body lacks it, and a sentence of the changes says so. `REFUSED`: so it does, and a
strict gateway refuses the request, because its meaning would change. `DESCRIBED`: so it does, and the model reads a
text that names what is missing. `DEFAULT`: the target does the same without a field. `LOST`: nothing says that it is
missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from request_table.sdk_types import Json
from request_table.wires import BASES, WIRES, rows_of
from streamkit import UsageError, parse_request, render_request
from streamkit.values.request_changes import (
    ChangeList,
    Described,
    InWords,
    LeftOut,
    Lost,
    Translated,
    changes_meaning,
)

EXACT, TRANSLATED, WORDS, DESCRIBED, DEFAULT = "exact", "translated", "words", "described", "default"
LEFT_OUT, REFUSED, LOST = "left out", "refused", "LOST"
#: What needs no field elsewhere, by the last part of its path, and why.
DEFAULTS = {
    "include_usage": "every stream has its usage",
    "response_format[text]": "text is the default",
    "format[text]": "text is the default",
    "tool_choice[auto]": "the default, if there are tools",
    "thinking[adaptive]": "models that reason do so without being asked",
    "thinking": "models that reason do so without being asked",
}
#: Fields of a part that the sentence about the whole part includes.
SAID_WITH_THE_PART = frozenset({"messages[tool].content[document].document.id"})
#: A model of each target whose settings have the usual forms.
MODELS = {
    "openai_chat": "m",
    "openai_responses": "m",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "bedrock_converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cohere": "m",
    "ollama": "m",
}
_CLASSES = (Translated, InWords, LeftOut, Lost, Described)


def statuses_of(client: str) -> dict[str, dict[str, str]]:
    """Return what happens to each row of a wire at each other wire, by path and target."""
    found: dict[str, dict[str, str]] = {}
    for path, (row, plain_row) in rows_of(client).items():
        found[path] = {}
        for target in WIRES:
            if target == client:
                continue
            status, _ = observe(client, row, plain_row, target)
            if status == LOST:
                parent = path.rpartition(".")[0]
                around = (
                    found[parent][target] if parent in found else observe(client, plain_row, BASES[client], target)[0]
                )
                if path.endswith(tuple(DEFAULTS)):
                    status = DEFAULT
                elif around in (LEFT_OUT, REFUSED, WORDS, DESCRIBED):
                    status = around  # what it is in is missing, too
                elif path in SAID_WITH_THE_PART:
                    status = LEFT_OUT
            found[path][target] = status
    return found


def written(body: Json, client: str, target: str) -> tuple[Json, list[str]]:
    """Return a client's request in the form of a target, as a gateway sends it, and the changes."""
    changes = ChangeList()
    request = parse_request(body, client, model="m", stream=True, changes=changes)
    settings = {"model": MODELS[target]}
    result = render_request(request, target, settings=settings, unsupported="text", stream=True, changes=changes)
    without_class = [change for change in changes if type(change) not in _CLASSES]
    assert without_class == [], "a change is made with its class: request_changes"
    return result, changes


def observe(client: str, row: Json, plain_row: Json, target: str) -> tuple[str, list[str]]:
    """Return what happens at a target to what a row has and the plain one has not, and the sentences about it."""
    plain, before = written(plain_row, client, target)
    try:
        body, changes = written(row, client, target)
    except UsageError as error:
        return REFUSED, [str(error)]
    sentences = [sentence for sentence in changes if sentence not in before]
    if meaning := [sentence for sentence in sentences if changes_meaning(sentence)]:
        return (DESCRIBED if all(isinstance(each, Described) for each in meaning) else REFUSED), sentences
    if any(isinstance(sentence, InWords) for sentence in sentences):
        return WORDS, sentences
    if body == plain:
        return (LEFT_OUT if sentences else LOST), sentences
    added = Counter(_leaves(body)) - Counter(_leaves(plain))
    wanted = Counter(_leaves(row)) - Counter(_leaves(plain_row))
    if sentences:
        return (TRANSLATED if added else LEFT_OUT), sentences
    return (EXACT if not wanted - added else TRANSLATED), sentences


def _leaves(value: Any, name: str = "") -> Iterator[str]:
    """Yield each value of a body that is no object and no list, as JSON."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, name)
    else:
        yield json.dumps(value)
