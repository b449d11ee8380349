"""Which changes of a request leave its meaning: the question, its material, and the actions that are allowed.

A strict gateway refuses a request with any other change (docs/rules.md, "A strict gateway"). The changes are sentences,
so the harmless ones are patterns of sentences here; a sentence that none of them matches changes the meaning. This
module must not depend on a provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["meaning_changes"]

#: Fields of bodies, messages and tools for the account, the cache or the transport of their own provider.
_HARMLESS_FIELDS: Final = frozenset(
    (
        *("cache_control", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        *("service_tier", "serviceTier", "performanceConfig", "inference_geo", "speed", "priority", "keep_alive"),
        *("safety_identifier", "user", "user_id", "metadata", "client_metadata", "requestMetadata", "labels"),
        *("store", "stream_options", "include", "id", "status", "eager_input_streaming", "index"),
    )
)
_HARMLESS: Final = re.compile(
    "|".join(
        (
            # in another form, with all of it
            r"the tool '.*' has the name|the tool name '.*' was changed|the schema of the tool ",
            r"a part \(\S+\) became text|a text file became text|that a result is an error was written into its text",
            r"put \d+ image or file of a tool's result into a user message",
            r"the free text of a call|the arguments of a call",
            r"the output is requested as the arguments of a tool|only these tools were offered",
            r"a refusal was sent back as text",
            # the form of messages that the target requires
            r"a text that followed a call was put before it|parts after a call|a user message '\(continued\)' was put",
            r"a text was added to a message with a document|added an assistant message between|white space at the end",
            r"a text of nothing but white space|left out an assistant message: it has neither|the results with the ids",
            r"the result with the id .* got the id of its call|the call '.*' of .* had no result and got a neutral one",
            # wishes about cost, sampling and reasoning; what an earlier response has for its own provider
            r"the reasoning (?:effort|budget)|reasoning |a response with reasoning only|the signature of reasoning",
            r"the setting '(?:temperature|top_p|top_k|seed|\w+_penalty|reasoning\w*|verbosity)' was ",
            r"the limit of \d+ output tokens became|opaque state|a thought signature",
            r"'\w+' of a block of type|the citations of a text",
            r"(?:the first |a )?cache marks? |the field '(?:caller|toolset_name|documents|thoughtSignature)' of a call",
            r"the detail of an image|left out a block of type 'reasoning'",
            r"the name of a file|an item of type '\w+' was left out: it was sent already",
        )
    )
)
_FIELDS: Final = re.compile(r"left out (?:the fields? )?('.*?') of |left out the fields ('.*'): only ")


def meaning_changes(changes: Iterable[str]) -> list[str]:
    """Return the sentences that report a change of a request's meaning."""
    return [sentence for sentence in changes if not (_HARMLESS.match(sentence) or _has_harmless_fields(sentence))]


def _has_harmless_fields(sentence: str) -> bool:
    if (found := _FIELDS.match(sentence)) is None:
        return False
    names = re.findall(r"'([^']*)'", found[1] or found[2])
    return _HARMLESS_FIELDS.issuperset(name.partition(".")[0] for name in names)
