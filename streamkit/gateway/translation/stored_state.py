"""The state of calls that a gateway keeps for clients that do not send it back: its names, and that of a request.

No chat framework keeps the fields in which a client could carry the state of an upstream (`opaque_state`), but each one
sends its calls back. So the state of a call, with that of the blocks before it, is stored under the call's id, which
the gateway made. Ollama's clients drop ids as well, and a client of the upstream's own wire has the upstream's ids,
which repeat (Kimi's ``functions.weather:0``): there a call is found by what the conversation repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias

import msgspec

from streamkit.gateway.translation.state_restorer import wrapped_states
from streamkit.history import Content, TextBlock, ToolCallBlock
from streamkit.json_text import to_valid_json
from streamkit.providers.provider import Provider
from streamkit.providers.writing.encoding import encode_json

__all__ = ["AlikeNames", "Place", "keeps_state", "needed_names"]

#: The positions of a call: of its content in the conversation, and of its block in the content.
Place: TypeAlias = tuple[int, int]


def keeps_state(client: Provider, target: Provider) -> bool:
    """Return whether the gateway keeps the state of calls that a target has made for a client.

    A client of a wire that signs its calls or its reasoning sends both back as they came. What a server of Chat
    Completions wants back (DeepSeek refuses calls without the reasoning before them) few clients of that wire keep;
    OpenAI's own gives no state there.
    """
    traits = target.traits
    if client.package == target.package:
        return traits.plain_reasoning and not traits.signs_reasoning
    return traits.plain_reasoning or not traits.joins_blocks


class AlikeNames:
    """The names of calls without their ids in one conversation, in its order: what an answer to a question repeats."""

    def __init__(self) -> None:
        self._question = b""  # its digest: it is a part of the name of each call after it
        self._counts: Counter[bytes] = Counter()  # of the calls since the question that are alike

    def read(self, content: Content) -> None:
        """Read a content before the next calls."""
        if content.speaker == "human":
            question = "".join([block.text for block in content.blocks if isinstance(block, TextBlock)])
            self._question = sha256(question.encode("utf-8", "surrogatepass")).digest()
            self._counts.clear()

    def of(self, name: str, arguments: object) -> str:
        """Return the name of the next call."""
        try:
            encoded = msgspec.json.encode(arguments, order="deterministic")
        except (UnicodeEncodeError, OverflowError):
            encoded = encode_json(to_valid_json(arguments))
        alike = sha256(self._question + encode_json(name) + encoded).digest()
        self._counts[alike] += 1
        return f"alike-{self._counts[alike]}-{alike[:16].hex()}"


def needed_names(
    contents: Sequence[Content], alike: AlikeNames | None, *, has_gateway_ids: bool
) -> Mapping[Place, list[str]]:
    """Return the names of the calls of a client's conversation that carry no state, by their place.

    Args:
        contents: the conversation.
        alike: gives names to calls whose ids do not tell them apart; the first name that is stored counts.
        has_gateway_ids: the gateway has made the ids.
    """
    needed: dict[Place, list[str]] = {}
    for position, content in enumerate(contents):
        if alike is not None:
            alike.read(content)
        for place, block in enumerate(content.blocks) if content.speaker == "ai" else ():
            if isinstance(block, ToolCallBlock):
                raw_id = block.metadata.get("raw_id")
                own = [raw_id if isinstance(raw_id, str) and raw_id else block.id] if has_gateway_ids else []
                if alike is not None:
                    own.append(alike.of(block.name, block.parameters))
                if not wrapped_states(block):
                    needed[position, place] = own
    return needed
