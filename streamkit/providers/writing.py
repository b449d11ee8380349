"""``writer``: the events of a turn as the stream of any provider.

It must not depend on how a provider's stream looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamkit.providers import registry
from streamkit.providers.provider import Framing, Provider

if TYPE_CHECKING:
    from streamkit.providers.provider_writer import Writer

__all__ = ["writer"]


def writer(
    provider: str | Provider,
    *,
    response_id: str | None = None,
    model: str | None = None,
    stream: bool = True,
    framing: Framing | None = None,
    usage_chunk: bool = True,
) -> Writer:
    """Return a writer: it turns the events of one turn, of any provider, into the bytes that a provider would send.

    ``writer.write(event)`` returns the bytes of an event at once, ``writer.close()`` the end of the stream. Calls get
    the ids of the target. What the target has no form for is left out, with a sentence in ``writer.omitted``; a call
    that is not complete never becomes complete. Of events of the same provider all that only its wire has is written
    again (docs/rules.md, "The same wire").

    Args:
        provider: the target: a provider's name, or a provider object.
        response_id: the id of the response; None: the id that the events have.
        model: the name of the model; None: the name that the events have.
        stream: False: ``write`` returns nothing, and ``close`` returns one JSON body, as a response that is not
            streamed has it, or the body of an error.
        framing: another framing that the target supports (Gemini without ``alt=sse``: ``json_array``); None for its
            usual one.
        usage_chunk: False: Chat Completions has the token counts in the chunk with the finish reason, not in a chunk
            without choices, which only clients expect that ask for it by ``stream_options``.

    Raises:
        UnknownProvider: no provider has that name; the message lists the registered ones.
    """
    return registry.get(provider).writer(
        response_id=response_id, model=model, stream=stream, framing=framing, usage_chunk=usage_chunk
    )
