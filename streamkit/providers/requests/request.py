"""A request to a model in neutral form: conversation, tools, settings, cache marks, further fields of its provider.

``providers.parse_request`` reads one from a client's body, ``providers.render_request`` writes one for any provider.
It is data: it can be stored as JSON and compared. This module must not depend on providers.

`Settings` is a model and not a dict, so that a misspelled name is an error where it is written, and a type checker
knows the names. None means that a setting is absent, as ``null`` does on every wire.

``render_request(cache="auto")`` marks the ends of the parts that the next request repeats: the last tool, the last
system text and the last block of the conversation, as Anthropic recommends for conversations that grow
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching#continuing-a-multi-turn-conversation). Targets
without marks cache by themselves and get none.
"""

# No annotations as texts, as in ``history.content``.

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from streamkit.errors import UsageError
from streamkit.history import Block, CacheMark, Content
from streamkit.tools.definition import HostedTool, OfferedTool, ToolDefinition
from streamkit.values.json_data import copy_with

__all__ = [
    "MOST_CACHE_MARKS",
    "AllowedTools",
    "CachePolicy",
    "OutputFormat",
    "Request",
    "Settings",
    "auto_mark",
    "cache_mark",
    "mark_contents",
    "mark_tools",
    "read_cache_mark",
    "to_settings",
]


class OutputFormat(BaseModel):
    """The form of the response's text.

    Attributes:
        type: ``text``, ``json`` (any JSON object) or ``json_schema``.
        json_schema: the schema, with the type ``json_schema``.
        name: a name for the schema, where the provider has one.
        description: what the schema is for.
        strict: whether the provider enforces the schema; None leaves it to the provider.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    type: Literal["text", "json", "json_schema"]
    json_schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Settings(BaseModel):
    """The settings of a request, by names that are the same for every provider. None: not set.

    Attributes:
        model: the model.
        max_output_tokens: the most tokens of the response, reasoning included.
        temperature: the sampling temperature.
        top_p: the share of probability from which tokens are chosen.
        top_k: the number of tokens from which one is chosen.
        stop: the texts that end the response.
        seed: the seed of the sampling.
        frequency_penalty: the penalty for tokens by how often they occurred.
        presence_penalty: the penalty for tokens that occurred.
        parallel_calls: whether the model may make several calls in one response.
        reasoning: ``off``, or ``auto``: the model reasons as much as it sees fit, within effort and budget.
        reasoning_effort: ``minimal``, ``low``, ``medium``, ``high``, ``xhigh`` or ``max``. On Anthropic it concerns
            the whole response, and models that reason only on request need ``reasoning="auto"`` besides.
        reasoning_budget: the most tokens of reasoning.
        reasoning_summary: how reasoning is shown: ``none``, ``auto``, ``concise``, ``detailed`` or
            ``updates`` (Anthropic's: short notes on the progress; ``auto`` elsewhere).
        verbosity: ``low``, ``medium`` or ``high``.
        output_format: the form of the response's text.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    model: str | None = None
    max_output_tokens: int | None = None
    temperature: int | float | None = None
    top_p: int | float | None = None
    top_k: int | float | None = None
    stop: list[str] | None = None
    seed: int | None = None
    frequency_penalty: int | float | None = None
    presence_penalty: int | float | None = None
    parallel_calls: bool | None = None
    reasoning: Literal["off", "auto"] | None = None
    reasoning_effort: str | None = None
    reasoning_budget: int | None = None
    reasoning_summary: str | None = None
    verbosity: str | None = None
    output_format: OutputFormat | None = None

    @property
    def values(self) -> dict[str, Any]:
        """The settings that are set, by name."""
        values = self.__dict__
        given = sorted(self.__pydantic_fields_set__)  # few of many; the others have their default, None
        return {name: values[name] for name in given if values[name] is not None}


class AllowedTools(BaseModel):
    """The tools that a request allows, of all that it defines.

    Attributes:
        names: their names.
        mode: ``auto``, or ``required`` if one of them must be called.
        fields: the fields of the body that allow them, which its own provider gets back.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, defer_build=True)

    names: list[str]
    mode: Literal["auto", "required"]
    fields: dict[str, Any] = Field(default_factory=dict)


class Request(BaseModel):
    """A request to a model.

    Attributes:
        contents: the conversation, with the system text in its place.
        tools: the tools that the model may call.
        tool_choice: ``auto``, ``none``, ``required`` or a tool's name; None leaves it to the provider.
        allowed_tools: the tools that may be called, if not all; another provider is offered no others.
        stream: whether the response is streamed.
        settings: the settings.
        unread: every other field of the body as it was, by the names of ``provider``. It is sent back to that provider
            alone. The entry of the messages' own field is not part of a body: it has the names of the fields of single
            messages that were left out, each with a list of their values.
        provider: the provider in whose form the request was read; None for one that a program made.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(defer_build=True)

    contents: list[Content]
    tools: list[ToolDefinition | HostedTool] = Field(default_factory=list)
    tool_choice: str | None = None
    allowed_tools: AllowedTools | None = None
    stream: bool = False
    settings: Settings = Field(default_factory=Settings)
    unread: dict[str, Any] = Field(default_factory=dict)
    provider: str | None = None


def to_settings(settings: Settings | Mapping[str, Any] | None) -> Settings:
    """Return settings that may be given as a dict.

    Raises:
        UsageError: a name is unknown, or a value has the wrong type.
    """
    if isinstance(settings, Settings):
        return settings
    if not settings:
        return Settings.model_construct()
    try:
        return Settings.model_validate(dict(settings or {}))
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()]
        known = ", ".join(Settings.model_fields)
        raise UsageError(f"settings are invalid ({'; '.join(problems)}); the names are: {known}") from None


#: ``auto``, or the same with a lifetime: ``{"ttl": "1h"}``. None: only the marks of the blocks.
CachePolicy: TypeAlias = Literal["auto"] | CacheMark | None

#: Of Anthropic (the page above: "You can define up to 4 cache breakpoints"), Bedrock
#: (https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html), OpenRouter and DashScope
#: (https://www.alibabacloud.com/help/en/model-studio/context-cache).
MOST_CACHE_MARKS = 4
_MARKED_BLOCKS = ("text", "image", "file", "tool_call", "tool_response")


def auto_mark(cache: CachePolicy) -> CacheMark | None:
    """Return the mark that a policy adds; None if it adds none.

    Raises:
        UsageError: ``cache`` is no policy.
    """
    if cache is None:
        return None
    ttl = cache.get("ttl") if isinstance(cache, Mapping) else None
    if cache != "auto" and not (isinstance(cache, Mapping) and set(cache) <= {"ttl"} and isinstance(ttl, str | None)):
        raise UsageError(f'cache must be "auto" or a CacheMark such as {{"ttl": "1h"}}, not {cache!r}')
    return {"ttl": ttl} if isinstance(ttl, str) else {}


def read_cache_mark(value: Any) -> CacheMark | None:
    """Return the mark of a ``cache_control`` of Anthropic's form; None for any other value."""
    if not isinstance(value, dict) or value.get("type") != "ephemeral":
        return None
    ttl = value.get("ttl")
    return CacheMark(ttl=ttl) if isinstance(ttl, str) else CacheMark()


def cache_mark(block: Block) -> CacheMark | None:
    """Return the block's cache mark; None if it has none, or none of a valid form."""
    mark = block.metadata.get("cache")
    if not isinstance(mark, dict):
        return None
    ttl = mark.get("ttl")
    return CacheMark(ttl=ttl) if isinstance(ttl, str) else CacheMark()


def mark_contents(contents: Sequence[Content], mark: CacheMark) -> list[Content]:
    """Return a conversation with a mark on its last system text and on its last block; marks that are there stay."""
    marked = list(contents)
    last = len(marked) - 1
    systems = [number for number, content in enumerate(marked) if content.speaker == "system"]
    for number in {last, *systems[-1:]} - {-1}:
        blocks = list(marked[number].blocks)
        for position in range(len(blocks) - 1, -1, -1):
            block = blocks[position]
            if block.type in _MARKED_BLOCKS and (block.type != "text" or getattr(block, "text", "").strip()):
                if "cache" not in block.metadata:
                    blocks[position] = copy_with(block, metadata={**block.metadata, "cache": mark})
                    marked[number] = copy_with(marked[number], blocks=blocks)
                break
    return marked


def mark_tools(tools: Sequence[OfferedTool], mark: CacheMark) -> list[OfferedTool]:
    """Return tools with a mark on the last one of the client; a mark that is there stays."""
    marked = list(tools)
    for position in range(len(marked) - 1, -1, -1):
        tool = marked[position]
        if isinstance(tool, ToolDefinition):
            marked[position] = copy_with(tool, metadata={"cache": mark, **tool.metadata})
            break
    return marked
