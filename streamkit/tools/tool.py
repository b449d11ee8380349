"""``Tool``: a name, a description, a JSON schema, and the function behind them.

It is made from a typed function or from an explicit schema. It must not know of providers or event loops: it is called
by execution.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args, overload

from streamkit.errors import UsageError
from streamkit.tools.function import FunctionKind, context_parameter, docstring_of, kind_of, name_of
from streamkit.tools.schema import InvalidArguments, Signature, check_explicit_schema, object_schema, short_repr
from streamkit.tools.strict import check_strict
from streamkit.tools.unpadding import drop_placeholder_nulls

__all__ = ["ApprovalPolicy", "Describe", "Tool", "ToolOptions", "ToolState", "to_tools", "tool"]

#: ``allow``: runs at once; ``ask``: somebody must agree first; ``deny``: never runs, the model is told so.
ApprovalPolicy: TypeAlias = Literal["allow", "ask", "deny"]

#: What people are told of a call, in the states of ``streamkit.Notifier``.
ToolState: TypeAlias = Literal["preparing", "running", "completed", "canceled", "error"]

#: ``describe(state, arguments)``: a sentence for people, or None; while ``preparing`` the arguments may be half there.
#: It is called in the middle of a stream, at each piece of the arguments: it must be quick, and must not change them.
Describe: TypeAlias = "Callable[[ToolState, dict[str, Any]], str | None]"

# What OpenAI and Anthropic accept; Gemini's rule is looser.
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Tool:
    """A tool that a model may call.

    Args:
        function: what runs; None for a tool that is only shown to the model. Typed parameters become the schema, unless
            ``parameters`` is given: then arguments go to it as they came, by keyword.
        name: 1 to 64 of ``[a-zA-Z0-9_-]``; default: the function's.
        description: default: the first paragraph of the function's docstring.
        parameters: JSON schema of an object, sent to the model as it is.
        approval: whether a call may run at once.
        timeout: seconds; None means the run's.
        exclusive: no other call runs beside it; those before it end first, those behind it begin after it.
        eager: it may start before the turn has ended, and is harmless where the turn then fails.
        limit: how many calls of it may run at once; None for as many as the run allows.
        conflicts_with: names of tools whose calls do not run beside its own (its own name: nor do two of its own).
            It holds in both directions. Of two calls in conflict the model's first goes first.
        strict: the provider shall hold the model to the schema, where it has such a mode; where that holds for all
            tools of a request or for none, all must ask for it. The schema is sent in the form that the mode takes, and
            what no mode takes (an open object) is refused here. A null that the model sends for an optional parameter
            that takes none counts as left out.
        describe: ``describe(state, arguments)``, what a call of it is doing in words, for ``streamkit.Notifier``.

    Attributes:
        kind: how the function is called.
        context_parameter: the name of the parameter that takes the ``ToolContext``, or None.

    Raises:
        UsageError: the function or the schema cannot be a tool's; the message says why.
    """

    __slots__ = (
        "_schema",
        "approval",
        "conflicts_with",
        "context_parameter",
        "describe",
        "description",
        "eager",
        "exclusive",
        "function",
        "kind",
        "limit",
        "name",
        "parameters",
        "strict",
        "timeout",
    )

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        approval: ApprovalPolicy = "allow",
        timeout: float | None = None,
        exclusive: bool = False,
        eager: bool = False,
        limit: int | None = None,
        conflicts_with: Collection[str] = (),
        strict: bool = False,
        describe: Describe | None = None,
    ) -> None:
        if function is not None and not callable(function):
            raise UsageError(f"a tool's function must be callable, not {function!r}")
        self.name: str = _legal(name or name_of(function))
        _check(self.name, approval, timeout, limit, conflicts_with, describe)
        paragraph, described = docstring_of(function)
        self.function = function
        self.description: str = paragraph if description is None else description
        self.approval: ApprovalPolicy = approval
        self.timeout = timeout
        self.exclusive = exclusive
        self.eager = eager
        self.limit = limit
        self.conflicts_with = frozenset(conflicts_with)
        self.strict = strict
        self.describe = describe
        self.kind: FunctionKind = kind_of(function)
        self._schema: Signature | None = None
        self.context_parameter: str | None = None
        self.parameters: dict[str, Any]
        if parameters is not None:
            self.parameters = object_schema(self.name, parameters)
            self.context_parameter = context_parameter(function)
        elif function is None:
            self.parameters = {"type": "object", "properties": {}}
        else:
            self._schema = Signature(self.name, function)
            self.context_parameter = self._schema.context_parameter
            self.parameters = self._schema.json_schema(described)
        if strict:
            check_strict(self.name, self.parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were not a tool."""
        if self.function is None:
            raise UsageError(f"tool {self.name} has no function to call")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def replace(self, **options: Unpack[ToolOptions]) -> Tool:
        """A copy with other options; the tool itself stays as it is.

        Args:
            options: as of ``Tool``; None for ``name`` or ``description`` keeps the one there is.

        Raises:
            UsageError: there is no such option, or it cannot have that value.
        """
        for option in options:
            if option not in ToolOptions.__annotations__:
                known = ", ".join(ToolOptions.__annotations__)
                raise UsageError(f"tool {self.name}: there is no option {option!r}; there are: {known}")
        made = copy.copy(self)
        for option, value in options.items():
            if value is not None or option not in ("name", "description"):
                setattr(made, option, value)
        _legal(made.name)
        _check(made.name, made.approval, made.timeout, made.limit, made.conflicts_with, made.describe)
        made.conflicts_with = frozenset(made.conflicts_with)
        if made._schema is not None:
            made._schema = made._schema.renamed(made.name)
        if made.strict:
            check_strict(made.name, made.parameters)
        return made

    def validate(self, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """The keyword arguments to call the function with (without the ``ToolContext``).

        A text (a call of kind ``custom``) goes to the only parameter there is.

        Raises:
            ArgumentsRejected: with a sentence that names each bad argument, what was given and what is expected.
        """
        if isinstance(arguments, str):
            names = list(self.parameters.get("properties", ()))
            if len(names) != 1:
                raise InvalidArguments(
                    f"{self.name} was called with a text; it takes an object with: {', '.join(names)}"
                )
            arguments = {names[0]: arguments}
        if not isinstance(arguments, dict):
            raise InvalidArguments(f"{self.name} takes its arguments as an object, not {short_repr(arguments)}")
        given = drop_placeholder_nulls(arguments, self.parameters, self.parameters) if self.strict else arguments
        if self._schema is not None:
            return self._schema.validate(given, self.parameters)
        return check_explicit_schema(self.name, given, self.parameters)


class ToolOptions(TypedDict, total=False):
    """The options of ``Tool`` that say how it is called and shown, each as there."""

    approval: ApprovalPolicy
    timeout: float | None
    exclusive: bool
    eager: bool
    limit: int | None
    conflicts_with: Collection[str]
    strict: bool
    describe: Describe | None
    name: str | None
    description: str | None


@overload
def tool(function: Callable[..., Any], **options: Unpack[ToolOptions]) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a typed function: ``tool(f, approval="ask")``, ``@tool`` or ``@tool(timeout=5)``.

    Args:
        function: what runs.
        options: as of ``Tool``: ``approval``, ``timeout``, ``exclusive``, ``eager``, ``limit``, ``conflicts_with``,
            ``strict``, ``describe``, ``name``, ``description``.
    """

    def made(function: Callable[..., Any]) -> Tool:
        if isinstance(function, Tool):
            raise UsageError(f"{function!r} is a tool already")
        return Tool(function, **options)

    return made if function is None else made(function)


def to_tools(tools: Sequence[Callable[..., Any] | Tool]) -> dict[str, Tool]:
    """Tools by name, in the given order; plain functions become tools.

    Raises:
        UsageError: two have the same name, or one is neither a function nor a tool.
    """
    if callable(tools) or isinstance(tools, (str, Mapping)):
        raise UsageError(f"tools is a list of functions and tools, not {tools!r}")
    by_name: dict[str, Tool] = {}
    for item in tools:
        made = item if isinstance(item, Tool) else Tool(item)
        if made.name in by_name:
            raise UsageError(f"two tools have the name {made.name!r}; give one of them another by tool(f, name=...)")
        by_name[made.name] = made
    return by_name


def _check(
    name: str,
    approval: ApprovalPolicy,
    timeout: float | None,
    limit: int | None,
    conflicts_with: Collection[str],
    describe: Describe | None,
) -> None:
    if approval not in get_args(ApprovalPolicy):
        raise UsageError(f'tool {name}: approval is "allow", "ask" or "deny", not {approval!r}')
    if timeout is not None and not timeout > 0:
        raise UsageError(f"tool {name}: timeout is a number of seconds above 0, not {timeout!r}")
    if limit is not None and limit < 1:
        raise UsageError(f"tool {name}: limit is how many calls of it run at once, at least 1, not {limit!r}")
    if isinstance(conflicts_with, str):
        raise UsageError(f"tool {name}: conflicts_with is a list of names, not {conflicts_with!r}")
    if describe is not None and (not callable(describe) or inspect.iscoroutinefunction(describe)):
        raise UsageError(f"tool {name}: describe is a function of (state, arguments), not awaited, not {describe!r}")


def _legal(name: Any) -> str:
    if not isinstance(name, str) or not _LEGAL_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a tool's name: providers take 1 to 64 letters, digits, _ and -; give another by name="
        )
    return name
