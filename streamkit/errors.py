"""Every exception of streamkit, by who must act.

* StreamkitError
  - UsageError               the caller: the call was wrong; the message explains how
    x UnknownProvider        no provider has that name; the message lists the registered ones
    x UnsupportedContent     the target cannot carry this content, and omitting it was not requested
  - StreamInterrupted        the provider or the network: the turn ended in an error; another attempt may help
  - InvalidOutput            the model: its structured output does not fit; the message is written for it
  - ToolFailed               raised by a tool; its message is sent to the model

* StreamkitWarning           the caller: the program works, and probably not as it should (``warnings.warn``)

Bad input from a wire raises none of these: it becomes an event and, if it ends the turn, ``turn.error``. The module
depends on nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "InvalidOutput",
    "StreamInterrupted",
    "StreamkitError",
    "StreamkitWarning",
    "ToolFailed",
    "UnknownProvider",
    "UnsupportedContent",
    "UsageError",
]


class StreamkitError(Exception):
    """The base class of all exceptions of streamkit."""


class UsageError(StreamkitError):
    """A call of streamkit that cannot work. Correct the calling code."""


class UnknownProvider(UsageError):
    """A name that no registered provider has.

    Attributes:
        name: the name.
        known: the names of all registered providers.
        broken: the plugins that cannot be loaded, by name, each with its distribution and its error.
    """

    def __init__(self, name: object, known: Iterable[str], broken: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(sorted(known))
        self.broken: dict[str, str] = dict(broken or {})
        message = f"unknown provider {_quote(name)}; known are: {', '.join(self.known)}"
        if isinstance(name, str) and (similar := _similar(name, self.known)):
            message += f". Did you mean {' or '.join(map(repr, similar))}?"
        if isinstance(name, str) and name in self.broken:
            message = f"the plugin of the provider {name!r} cannot be loaded: {self.broken[name]}"
        elif self.broken:
            plugins = "; ".join(f"{plugin!r}: {error}" for plugin, error in sorted(self.broken.items()))
            message += f"{'' if message.endswith('?') else '.'} Plugins that cannot be loaded: {plugins}"
        super().__init__(message)

    def __reduce__(self) -> tuple[type[UnknownProvider], tuple[object, ...]]:
        # By default the message alone is passed when it is unpickled, and pools of processes break or wait for ever.
        return type(self), (self.name, self.known, self.broken)


_LONGEST = 64  # characters of an unknown name that are compared and shown
#: What people call a provider by its models or its company. Grok is near "groq", and is another company's.
_OTHER_NAMES = {
    "claude": "anthropic",
    "gpt": "openai_chat",
    "google": "gemini",
    "vertex": "gemini",
    "grok": "xai",
    "moonshot": "kimi",
    "dashscope": "qwen",
    "alibaba": "qwen",
    "aws": "bedrock_converse",
    "amazon": "bedrock_converse",
    "litellm": "openai_compatible",
    "lmstudio": "openai_compatible",
    "llama": "openai_compatible",
    "sglang": "openai_compatible",
}


def _similar(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that an unknown one may mean: those that contain it, else the most similar."""
    wanted = name[:_LONGEST].strip().lower().replace("-", "_").replace(" ", "_")
    containing = [other for other in known if len(wanted) > 2 and (wanted in other or other in wanted)]
    if containing:
        return sorted(containing, key=lambda other: not other.startswith(wanted))[:3]
    for part, other in _OTHER_NAMES.items():
        if part in wanted and other in known:
            return [other]
    from difflib import get_close_matches  # rarely needed

    return get_close_matches(wanted, known, n=1)


def _quote(name: object) -> str:
    return f"{name[:_LONGEST]!r}..." if isinstance(name, str) and len(name) > _LONGEST else repr(name)


class UnsupportedContent(UsageError):
    """Content that the target provider cannot carry, such as an image in a form that it does not accept."""


class StreamInterrupted(StreamkitError):
    """A turn that ended in an error. Its text has the kind, message, status and code of the error, and its server.

    A copy in another process (``pickle``) has the error and the failures alone.

    Attributes:
        error: the turn's ``StreamError`` (kind, message, code, raw, status, retry_after, limit, requested).
        turn: the ``Turn``, or None; what arrived before the error is readable there.
        results: the ``ToolResult`` of each call that had started before the turn failed: such calls may have had
            effects, which their metadata ``effects_possible`` marks. Raised by a run only.
        failures: a ``FailedRequest`` (provider, model, endpoint, error) for each attempt of the request, also for those
            that were followed by another one; the last has the error of the turn.
    """

    def __init__(self, error: Any, turn: Any = None, results: Iterable[Any] = (), failures: Iterable[Any] = ()) -> None:
        self.error = error
        self.turn = turn
        self.results: tuple[Any, ...] = tuple(results)
        self.failures: tuple[Any, ...] = tuple(failures)
        status = f"HTTP status {error.status}"
        facts = [] if error.status is None or error.message == status else [status]
        if error.code is not None:
            facts.append(error.code)
        text = f"{error.kind}: {error.message}" + (f" ({', '.join(facts)})" if facts else "")
        super().__init__(f"{text}, from {self.failures[-1].target}" if self.failures else text)

    def __reduce__(self) -> tuple[type[StreamInterrupted], tuple[object, ...]]:
        # A turn, and what a tool returned or raised, cannot be pickled: the error would be lost with them.
        return type(self), (self.error, None, (), self.failures)


class InvalidOutput(StreamkitError):
    """A model's structured output that is not complete, is not JSON, or does not fit its type.

    The message is a sentence for the model: send it back to get a corrected output, as ``run_loop`` does.

    Attributes:
        text: the JSON text of the output; empty if there is none.
    """

    def __init__(self, message: str, text: str = "") -> None:
        self.text = text
        super().__init__(message)


class StreamkitWarning(UserWarning):
    """A definition that works, but not well: a tool that a model cannot understand. Filter it as any warning."""


class ToolFailed(StreamkitError):
    """An exception for tools to raise: the message becomes the call's error unchanged, so write it for the model.

    Any other exception of a tool becomes an error too, with its type and "failed" around the message.
    """
