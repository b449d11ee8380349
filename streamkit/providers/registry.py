"""The registry of providers, by name.

Each package in this folder is discovered automatically; this module contains no list of them. Third parties add a
provider with `register` or the entry point group ``streamkit.providers``. `dialect` creates one that uses a known wire
format with small differences.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import fields, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from streamkit.calls import ALL_MARKUP_FAMILIES
from streamkit.errors import UnknownProvider, UsageError
from streamkit.providers.provider import Provider, Traits

__all__ = ["detect", "dialect", "get", "names", "register"]

_PACKAGE = "streamkit.providers"
_registered: dict[str, Provider] = {}
_packages_loaded = False
_entry_points_loaded = False


def get(provider: str | Provider) -> Provider:
    """Return the provider of that name; a ``Provider`` object is returned unchanged.

    Raises:
        UnknownProvider: no provider has that name; the message lists the known names.
        UsageError: the value is neither a name nor a provider.
    """
    if not isinstance(provider, str):
        if not isinstance(getattr(provider, "traits", None), Traits):
            raise UsageError(f"a provider must be a name or a Provider, not {type(provider).__name__}")
        return provider
    registered = _registered.get(provider)
    if registered is None and provider.isidentifier() and find_spec(f"{_PACKAGE}.{provider}") is not None:
        _load_package(provider)  # most programs use one or two providers, so the other packages are not imported
        registered = _registered.get(provider)
    if registered is None:
        _load_packages()
        registered = _registered.get(provider)
    if registered is None:
        _load_entry_points()
        registered = _registered.get(provider)
    if registered is None:
        raise UnknownProvider(provider, _registered)
    return registered


def names() -> list[str]:
    """Return the names of all providers, sorted."""
    _load_packages()
    _load_entry_points()
    return sorted(_registered)


def register(provider: Provider) -> None:
    """Register a provider under its name.

    Raises:
        UsageError: another provider has that name.
    """
    registered = _registered.setdefault(provider.name, provider)
    if registered is not provider:
        raise UsageError(f"a provider named {provider.name!r} is registered already")


def dialect(
    name: str,
    base: str | Provider = "openai_chat",
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
    known = [trait.name for trait in fields(origin.traits) if trait.name != "name"]
    for trait in traits:
        if trait not in known:
            raise UsageError(f"a dialect of {origin.name!r} has no trait {trait!r}; there are: {', '.join(known)}")
    # The order in which calls end depends on the vendor, not on the wire format, so it is not taken from the base.
    traits.setdefault("calls_end_in_order", False)
    if name != origin.name:
        traits.setdefault("markup_families", ALL_MARKUP_FAMILIES)  # another server may have any model
        traits.setdefault("matches_head", Traits.matches_head)
        key = f"{name.upper()}_API_KEY"
        endpoint = replace(
            origin.traits.endpoint, base_url=None, base_url_variable=None, key_variables=(key,), key_required=False
        )
        traits.setdefault("endpoint", endpoint)
    return Provider(replace(origin.traits, name=name, **traits), origin.package, rewrite=rewrite or origin.rewrite)


def detect(data: bytes) -> str | None:
    """Return the name of the provider that matches the first bytes of a body, or None if that is ambiguous.

    Dialects of Chat Completions cannot be distinguished: for all of them it is ``openai_chat``.
    """
    head = data[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    matching = [name for name in names() if _registered[name].traits.matches_head(head)]
    return matching[0] if len(matching) == 1 else None


def _load_packages() -> None:
    global _packages_loaded
    if _packages_loaded:
        return
    _packages_loaded = True
    for module in pkgutil.iter_modules(import_module(_PACKAGE).__path__):
        if module.ispkg:
            _load_package(module.name)


def _load_package(name: str) -> None:
    for provider in import_module(f"{_PACKAGE}.{name}").PROVIDERS:
        register(provider)


def _load_entry_points() -> None:
    global _entry_points_loaded
    if _entry_points_loaded:
        return
    _entry_points_loaded = True
    from importlib.metadata import entry_points  # takes a third of this package's import time and is rarely needed

    for point in entry_points(group="streamkit.providers"):
        register(point.load())
