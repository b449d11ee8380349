"""The registry of providers, by name.

Each package in this folder is discovered automatically; this module contains no list of them. Third parties add a
provider with `register` or the entry point group ``streamkit.providers``. `dialect` creates one that uses a known wire
format with small differences.

A plugin that cannot be loaded or used breaks no other provider: it is left out, reported once to the logger
``streamkit`` and listed by `broken`, and `get` names it with its distribution and its error.

The names of the built-in providers as a type, for the completion of editors.

A function that takes a provider also takes any other text: a registered provider has a name of its own. A test compares
the list with the packages. This module must not depend on providers.

``writer``: the events of a turn as the stream of any provider.

It must not depend on how a provider's stream looks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from streamkit.calls import ALL_MARKUP_FAMILIES
from streamkit.errors import UnknownProvider, UsageError
from streamkit.providers.contract.traits import matches_no_head
from streamkit.providers.decoding.detection import HEAD_SIZE, HeadMatcher, read_head
from streamkit.providers.provider import Framing, Provider, Traits
from streamkit.values.message_format import RateMessage, rate_as_possible

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from streamkit.providers.writing.writer import Writer

__all__ = [
    "ProviderName",
    "broken",
    "detect",
    "detect_other_api",
    "dialect",
    "get",
    "message_formats",
    "names",
    "npm_state",
    "register",
    "writer",
]

ProviderName: TypeAlias = Literal[
    "anthropic",
    "azure_openai",
    "bedrock_converse",
    "bedrock_invoke",
    "cerebras",
    "cohere",
    "deepseek",
    "fireworks",
    "gemini",
    "groq",
    "huggingface",
    "kimi",
    "mistral",
    "ollama",
    "openai_chat",
    "openai_compatible",
    "openai_responses",
    "openrouter",
    "perplexity",
    "qwen",
    "together",
    "vllm",
    "xai",
]
_PACKAGE = "streamkit.providers"
_GROUP = "streamkit.providers"
_registered: dict[str, Provider] = {}
_broken: dict[str, str] = {}  # by the plugin's name: its distribution and its error
_origins: dict[str, str] = {}  # by the provider's name: the plugin that registered it
_packages_loaded = False
_entry_points_loaded = False


def get(provider: ProviderName | str | Provider) -> Provider:
    """Return the provider of that name; a ``Provider`` object is returned unchanged.

    Raises:
        UnknownProvider: no provider has that name; the message lists the known names and the plugins that cannot be
            loaded, with their errors.
        UsageError: the value is neither a name nor a provider.
    """
    if not isinstance(provider, str):
        if not isinstance(getattr(provider, "traits", None), Traits):
            raise UsageError(f"a provider must be a name or a Provider, not {type(provider).__name__}")
        return provider
    if (registered := _registered.get(provider)) is not None:
        return registered
    if provider.isidentifier() and find_spec(f"{_PACKAGE}.{provider}") is not None:
        _load_package(provider)  # most programs use one or two providers, so the other packages are not imported
        registered = _registered.get(provider)
    if registered is None:
        _load_packages()
        registered = _registered.get(provider)
    if registered is None:
        _load_entry_points()
        registered = _registered.get(provider)
    if registered is None:
        raise UnknownProvider(provider, _registered, _broken)
    return registered


def names() -> list[str]:
    """Return the names of all providers, sorted."""
    _load_packages()
    _load_entry_points()
    return sorted(_registered)


def broken() -> dict[str, str]:
    """Return the plugins that cannot be used: the name of each entry point, with its distribution and its error."""
    names()
    return dict(_broken)


def register(provider: Provider) -> None:
    """Register a provider under its name.

    Raises:
        UsageError: the object is no provider, or another provider has that name.
    """
    if not isinstance(getattr(provider, "traits", None), Traits):
        raise UsageError(f"a provider must have Traits in its attribute traits; {type(provider).__name__} has none")
    if not isinstance(provider.name, str) or not callable(getattr(provider, "parser", None)):
        raise UsageError(f"a provider must have a name and a method parser(sink); {type(provider).__name__} lacks one")
    registered = _registered.setdefault(provider.name, provider)
    if registered is not provider:
        raise UsageError(f"a provider named {provider.name!r} is registered already")


def dialect(
    name: str,
    base: ProviderName | str | Provider = "openai_chat",
    *,
    rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    **traits: Any,
) -> Provider:
    """Return a new provider with a known wire format: an object, accepted wherever a provider's name is.

    Its calls have their own ids, and its opaque state is sent back only to it. With the name of its base it replaces
    that provider, with the same history. `register` makes it available by its name::

        def rename_reasoning(chunk):  # acme streams its reasoning in another field
            for choice in chunk["choices"]:
                choice["delta"]["reasoning"] = choice["delta"].pop("thoughts", None)
            return chunk

        acme = providers.dialect("acme", rewrite=rename_reasoning, stream_usage=False)

    Args:
        name: its name.
        base: the provider whose traits it starts with.
        rewrite: applied to every chunk, as a dict, before it is parsed. What it raises is raised by ``feed``.
        traits: the traits that differ; see ``Traits``, for Chat Completions also ``openai_chat.dialects.ChatDialect``.

    Raises:
        UsageError: the base has no such trait.
        UnknownProvider: no provider has the name of the base.
    """
    origin = get(base)
    known = [trait for trait in origin.traits.__struct_fields__ if trait != "name"]
    for trait in traits:
        if trait not in known:
            raise UsageError(f"a dialect of {origin.name!r} has no trait {trait!r}; there are: {', '.join(known)}")
    # The order in which calls end depends on the vendor, not on the wire format, so it is not taken from the base.
    traits.setdefault("calls_end_in_order", False)
    if name != origin.name:
        traits.setdefault("markup_families", ALL_MARKUP_FAMILIES)  # another server may have any model
        traits.setdefault("matches_head", matches_no_head)
        # Another server refuses other requests: a rule without evidence would be invented.
        traits.setdefault("request_rules", None)
        traits.setdefault("compatible", frozenset())  # another server of a wire refuses the signatures of the first
        key = f"{name.upper()}_API_KEY"
        endpoint = msgspec.structs.replace(
            origin.traits.endpoint, base_url=None, base_url_variable=None, key_variables=(key,), key_required=False
        )
        traits.setdefault("endpoint", endpoint)
    changed = msgspec.structs.replace(origin.traits, name=name, **traits)
    return Provider(changed, origin.package, rewrite=rewrite or origin.rewrite)


def message_formats() -> list[tuple[str, RateMessage]]:
    """Return the formats of messages: the name of a provider that has each, and the function that rates a message.

    Of several providers with one format it is the one that its package is named after.
    """
    return list(_message_formats(tuple(names())))


@lru_cache(maxsize=8)  # each request of a gateway asks for them; a registered name never gets another provider
def _message_formats(provider_names: tuple[str, ...]) -> tuple[tuple[str, RateMessage], ...]:
    formats: dict[RateMessage, str] = {}
    variants_last = sorted(map(get, provider_names), key=lambda each: each.package.rpartition(".")[2] != each.name)
    for provider in variants_last:
        if provider.traits.rate_message is not rate_as_possible:
            formats.setdefault(provider.traits.rate_message, provider.name)
    return tuple((name, rate) for rate, name in formats.items())


def npm_state(name: str, state: str | None, text: str | None) -> dict[str, Any]:
    """Return what npm ``ai`` has kept of a part, in the form of ``history.vercel_ui``; empty if no provider is meant.

    Args:
        name: the provider's name there.
        state: the opaque state, if the part has some.
        text: the text of the reasoning that it is; None for another part.
    """
    for provider in map(get, names()):
        traits = provider.traits
        if name not in traits.npm_names or provider.package.rpartition(".")[2] != traits.name:
            continue
        signature: str | None = None
        metadata: dict[str, Any] = {}
        if state is not None and text is not None and traits.reasoning_state is not None:
            signature, metadata = traits.reasoning_state(state, bool(text))
        elif state is not None and text is None and traits.call_state is not None:
            metadata = traits.call_state(state)
        return {"provider": traits.name, "signature": signature, "metadata": metadata}
    return {}


def detect(data: bytes) -> str | None:
    """Return the name of the provider that matches the first bytes of a body, or None if that is ambiguous.

    Dialects of Chat Completions cannot be distinguished: for all of them it is ``openai_chat``. An error body has a
    provider only if no other one has its shape.

    Raises:
        UsageError: the data is not bytes.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise UsageError(f"detect() takes the first bytes of a response, undecoded, not {type(data).__name__}")
    head = bytes(data[:HEAD_SIZE]).removeprefix(b"\xef\xbb\xbf").lstrip()
    names()
    matching: list[str] = []
    matchers: list[tuple[str, HeadMatcher]] = []
    for name, provider in _registered.items():
        try:
            matches_head = provider.traits.matches_head
            if isinstance(matches_head, HeadMatcher):
                matchers.append((name, matches_head))
            elif matches_head is not matches_no_head and matches_head(head):
                matching.append(name)
        except Exception as error:  # of a third party's provider
            _report_broken(name, _origins.get(name, "registered by the program"), error)
    for chunk in read_head(head):  # decoded once for all wires
        found = [name for name, matcher in matchers if matcher.is_own(chunk)]
        if found:
            matching += found
            break
    return matching[0] if len(matching) == 1 else None


def detect_other_api(head: bytes) -> str | None:
    """Return the name of the API that is not read and that the first bytes of a body are of; None if there is none."""
    matchers = [provider.traits.matches_head for provider in _registered.values()]
    other_apis = {k: v for each in matchers if isinstance(each, HeadMatcher) for k, v in each.other_apis.items()}
    found = (name for chunk in read_head(head) for name, is_of_api in other_apis.items() if is_of_api(chunk))
    return next(found, None)


def _load_packages() -> None:
    global _packages_loaded
    if _packages_loaded:
        return
    _packages_loaded = True
    from pkgutil import iter_modules  # most programs name one provider

    for module in iter_modules(import_module(_PACKAGE).__path__):
        if module.ispkg:
            _load_package(module.name)


def _load_package(name: str) -> None:
    for provider in getattr(import_module(f"{_PACKAGE}.{name}"), "PROVIDERS", ()):  # a shared package has none
        register(provider)


def _load_entry_points() -> None:
    global _entry_points_loaded
    if _entry_points_loaded:
        return
    _entry_points_loaded = True
    from importlib.metadata import entry_points  # takes a third of this package's import time and is rarely needed

    # The order of distributions differs between machines; of two plugins with one name the first is used.
    for point in sorted(entry_points(group=_GROUP), key=lambda point: point.name):
        origin = _describe_origin(point)
        try:
            provider = point.load()
            register(provider)
        except (Exception, SystemExit) as error:  # whatever a third party's module raises when it is imported
            _report_broken(point.name, origin, error)
        else:
            _origins[provider.name] = origin


def _describe_origin(point: EntryPoint) -> str:
    text = f"entry point {point.name}"
    with suppress(Exception):  # of damaged metadata
        text = f"entry point {point.name} = {point.value}"
        if point.dist is not None:
            text = f"the distribution {point.dist.name} {point.dist.version}, {text}"
    return text


def _report_broken(name: str, origin: str, error: BaseException) -> None:
    """Keep the error of a plugin, and log it once."""
    if name in _broken:
        return
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # an exception whose __str__ raises
        text = type(error).__name__
    _broken[name] = f"{text} ({origin})"
    import logging  # takes longer to import than this package, and is needed for this alone

    logging.getLogger("streamkit").warning("the provider plugin %r cannot be used: %s", name, _broken[name])


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
    that is not complete never becomes complete. Of events of the same provider the facts about the response are written
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
    return get(provider).writer(
        response_id=response_id, model=model, stream=stream, framing=framing, usage_chunk=usage_chunk
    )
