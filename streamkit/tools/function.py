"""Inspection of a function: its name, its docstring, its parameters and their types, how it is called.

It creates no schema and calls nothing.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
import warnings
from collections.abc import Callable
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from streamkit.errors import StreamkitWarning, UsageError
from streamkit.tools.context import ToolContext

__all__ = [
    "FunctionKind",
    "annotation_of",
    "check_context_parameter",
    "context_parameter",
    "docstring_of",
    "is_context",
    "kind_of",
    "name_of",
    "parameters_of",
    "warn_of_unclear",
]

#: How the function is called: an async one is awaited; a generator's last value is its result.
FunctionKind: TypeAlias = Literal["sync", "async", "generator", "async_generator"]


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that has the annotations and the docstring: inside a partial, or an object's method."""
    while isinstance(function, functools.partial):
        function = function.func
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        return type(function).__call__
    return function


def name_of(function: Callable[..., Any] | None) -> str:
    """Return a function's own name.

    Raises:
        UsageError: it has none.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise UsageError("a tool needs name= if its function has no name")
    return name


def kind_of(function: Callable[..., Any] | None) -> FunctionKind:
    """Return how a function is called."""
    if function is None:
        return "sync"
    plain = _plain(function)
    if inspect.isasyncgenfunction(plain):
        return "async_generator"
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(plain):
        return "async"
    return "generator" if inspect.isgeneratorfunction(plain) else "sync"


_SECTION = re.compile(r"(Args|Arguments|Parameters):\s*")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


def docstring_of(function: Callable[..., Any] | None) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and the descriptions of the parameters in its Args section."""
    text = inspect.getdoc(_plain(function)) if function is not None else None
    lines = (text or "").splitlines()
    paragraph: list[str] = []
    for line in lines:
        if not line.strip() or _SECTION.fullmatch(line):
            break
        paragraph.append(line.strip())
    descriptions: dict[str, list[str]] = {}
    start = next((n + 1 for n, line in enumerate(lines) if _SECTION.fullmatch(line)), len(lines))
    depth: int | None = None
    name = ""
    for line in lines[start:]:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if indent == 0:
            break
        depth = indent if depth is None else depth
        match = _ARGUMENT.fullmatch(line.strip()) if indent <= depth else None
        if match:
            name = match[1]
            descriptions[name] = [match[2]]
        elif name:
            descriptions[name].append(line.strip())
    return " ".join(paragraph), {name: " ".join(parts).strip() for name, parts in descriptions.items()}


def is_context(hint: Any) -> bool:
    """Return True if an annotation is the ``ToolContext``, also as ``ToolContext[Deps]`` or ``ToolContext | None``."""
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, ToolContext):
        return True
    if origin is Annotated:
        return is_context(get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(is_context(option) for option in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, ToolContext)


def annotation_of(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the annotation of a parameter, with names resolved. The return annotation is not resolved.

    Raises:
        NameError, TypeError, SyntaxError: it cannot be resolved.
    """
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    scope = getattr(inspect.unwrap(_plain(function)), "__globals__", {})
    # If it is imported only for type checkers, as linters advise, it is not in the function's globals.
    local = {} if "ToolContext" in scope else {"ToolContext": ToolContext}
    for variable in getattr(_plain(function), "__type_params__", ()):
        local[variable.__name__] = variable
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    return typing.get_type_hints(holder, globalns=scope, localns=local, include_extras=True)[parameter.name]


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that a call must or may have, without those that a partial has fixed."""
    fixed: set[str] = set()
    inner = function
    while isinstance(inner, functools.partial):
        fixed |= inner.keywords.keys()
        inner = inner.func
    return [parameter for parameter in inspect.signature(function).parameters.values() if parameter.name not in fixed]


def context_parameter(tool: str, function: Callable[..., Any] | None) -> str | None:
    """Return the name of the parameter that takes the context; the other parameters are not inspected.

    Raises:
        UsageError: the context cannot be passed to it.
    """
    if function is None:
        return None
    try:
        parameters = parameters_of(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return None
    name: str | None = None
    for parameter in parameters:
        try:
            hint = annotation_of(function, parameter)
        except (NameError, TypeError, SyntaxError):
            continue
        if is_context(hint):
            check_context_parameter(tool, parameter, name)
            name = parameter.name
    return name


def check_context_parameter(tool: str, parameter: inspect.Parameter, other: str | None) -> None:
    """Check that the context, which is passed by keyword, reaches a function.

    Args:
        tool: the tool's name.
        parameter: the parameter with the annotation ``ToolContext``.
        other: the name of an earlier one.

    Raises:
        UsageError: it does not.
    """
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise UsageError(f"tool {tool}: {stars}{parameter.name} cannot take the ToolContext; use a plain parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise UsageError(f"tool {tool}: {parameter.name!r} is positional-only; tools are called by keyword")
    if other is not None:
        raise UsageError(f"tool {tool}: {other!r} and {parameter.name!r} are both a ToolContext; keep one of them")


def warn_of_unclear(tool: str, function: Callable[..., Any], description: str | None) -> None:
    """Warn of a function that a model cannot use well: without a docstring, or with parameters of any type.

    The warning is located at the function, so that Python shows it once for each, however often a tool is made of it.

    Args:
        tool: the tool's name.
        function: its function, whose parameters make the schema.
        description: the tool's own description, if it has one.
    """
    problems: list[str] = []
    if description is None and not docstring_of(function)[0]:
        problems.append("has no description: give its function a docstring, or pass description=")
    try:
        parameters = parameters_of(function)
    except (TypeError, ValueError):  # a builtin without a signature, which cannot be a tool
        parameters = []
    untyped = [repr(parameter.name) for parameter in parameters if parameter.annotation is parameter.empty]
    if untyped:
        problems.append(f"has parameters without an annotation, so the model may send anything: {', '.join(untyped)}")
    if not problems:
        return
    message = f"tool {tool} {'; it '.join(problems)}"
    code = getattr(inspect.unwrap(_plain(function)), "__code__", None)
    if code is None:
        warnings.warn(message, StreamkitWarning, stacklevel=4)
    else:
        names = getattr(inspect.unwrap(_plain(function)), "__globals__", {})
        registry = names.setdefault("__warningregistry__", {})
        module = names.get("__name__", "")
        warnings.warn_explicit(message, StreamkitWarning, code.co_filename, code.co_firstlineno, module, registry)
