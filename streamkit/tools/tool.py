"""The class ``Tool``: a function with a name, a description, a JSON schema and options.

It is created from a typed function or from an explicit schema. It must not depend on providers or event loops;
execution calls its function.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, Literal, TypeAlias, TypedDict, Unpack, get_args, overload

from typing_extensions import (  # a dependency of pydantic; those of typing have no default before 3.13
    ParamSpec,
    TypeVar,
)

from streamkit.calls import CallKind
from streamkit.errors import UsageError
from streamkit.tools.custom import TEXT_FIELD, Grammar, check_custom, check_fields, text_parameter, text_schema
from streamkit.tools.function import (
    FunctionKind,
    InvalidArguments,
    Signature,
    check_explicit_schema,
    context_parameter,
    docstring_of,
    kind_of,
    name_of,
    object_schema,
    warn_of_unclear,
)
from streamkit.values.json_data import json_excerpt

__all__ = ["ApprovalPolicy", "Describe", "Tool", "ToolOptions", "ToolState", "describe_call", "tool"]

#: ``allow``: a call runs at once; ``ask``: a person must approve it first; ``deny``: it never runs, and the model gets
#: a result with the reason.
ApprovalPolicy: TypeAlias = Literal["allow", "ask", "deny"]

#: The states of a call that ``streamkit.Notifier`` reports to people.
ToolState: TypeAlias = Literal["preparing", "running", "completed", "canceled", "error"]

#: ``describe(state, arguments)`` returns a sentence for people, or None; while ``preparing`` the arguments may be
#: incomplete. It is called during the stream, at each delta of the arguments: it must be fast and must not change them.
Describe: TypeAlias = Callable[[ToolState, dict[str, Any]], str | None]


def describe_call(describe: Describe | None, state: ToolState, arguments: dict[str, Any]) -> str | None:
    """Return the sentence of a tool's ``describe`` for a call; None if there is none, or it raised."""
    try:
        description = None if describe is None else describe(state, arguments)
    except Exception:  # a tool need not handle partial arguments
        return None
    return description if isinstance(description, str) else None


#: The parameters and the result of the function. ``Tool`` alone is a tool of any function.
P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

# The rule of OpenAI and Anthropic; Gemini's is less strict.
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Tool(Generic[P, R]):
    """A tool that a model may call; for the program it is still the function, with the same parameters and result.

    Args:
        function: the function to run; None for a tool that is only offered to the model. Its typed parameters become
            the schema, unless ``parameters`` is given: then it gets the arguments unchanged, by keyword.
        name: 1 to 64 of ``[a-zA-Z0-9_-]``; default: the function's name.
        description: default: the first paragraph of the function's docstring.
        parameters: the JSON schema of an object, sent to the model unchanged.
        approval: whether a call may run at once.
        timeout: seconds; None means the run's timeout.
        exclusive: whether no other call runs at the same time; earlier calls end first, later ones start after it.
        eager: whether it may start before the turn has ended, and is harmless if the turn then fails.
        once: whether a call runs at most once. In a durable run its start is stored before it, and a call that had
            started when the run was stopped does not run again: the model reads that the outcome must be checked.
        limit: how many calls of it may run at once; None means no limit but the run's.
        ends_run: whether a ``completed`` result ends the run, after the other calls of its round; the value is
            ``run.output``. Executors take no notice of it.
        conflicts_with: names of tools whose calls do not run at the same time as its own (its own name: its calls run
            one after another). It holds in both directions. Of two conflicting calls, the model's first starts first.
        strict: whether the provider enforces the schema, if it has such a mode; if its mode holds for all tools of a
            request or for none, all of them must be strict. The schema is sent in the form that the mode takes, and one
            that no mode takes (an open object) is refused here. A null that the model sends for an optional parameter
            that does not accept null counts as omitted.
        describe: ``describe(state, arguments)`` describes what a call of it is doing, for ``streamkit.Notifier``.
        fields: by a provider's name, fields that are added to the tool's declaration for that provider, such as
            ``{"anthropic": {"defer_loading": True}}``. Fields with a ``type`` are the complete declaration of a tool
            which the provider defines, such as ``{"type": "shell"}``.
        kind: ``function``, or ``custom``: the model writes free text, which is the only argument of the function.
            Providers without custom tools are offered a function with one text ``input``.
        grammar: of a custom tool, the grammar that the provider enforces for its text.

    Attributes:
        declaration: what is sent instead of the tool's description; None unless it was passed as a dict.
        function_kind: how the function is called.
        context_parameter: the name of the parameter that takes the ``ToolContext``, or None.

    Raises:
        UsageError: the function or the schema cannot be used for a tool; the message gives the reason.

    Warns:
        StreamkitWarning: the model gets no description, or a parameter has no annotation, so that any value fits.
    """

    __slots__ = (
        "_schema",
        "_text_parameter",
        "approval",
        "conflicts_with",
        "context_parameter",
        "declaration",
        "describe",
        "description",
        "eager",
        "ends_run",
        "exclusive",
        "fields",
        "function",
        "function_kind",
        "grammar",
        "kind",
        "limit",
        "name",
        "once",
        "parameters",
        "strict",
        "timeout",
    )

    def __init__(
        self,
        function: Callable[P, R] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        approval: ApprovalPolicy = "allow",
        timeout: float | None = None,
        exclusive: bool = False,
        eager: bool = False,
        once: bool = False,
        limit: int | None = None,
        ends_run: bool = False,
        conflicts_with: Collection[str] = (),
        strict: bool = False,
        describe: Describe | None = None,
        fields: Mapping[str, Mapping[str, Any]] | None = None,
        kind: CallKind = "function",
        grammar: Grammar | None = None,
    ) -> None:
        if function is not None and not callable(function):
            raise UsageError(f"a tool's function must be callable, not {function!r}")
        self.name: str = name or name_of(function)
        if kind != "function" or grammar is not None:
            check_custom(self.name, kind, grammar, has_schema=parameters is not None, is_strict=strict)
        paragraph, described = docstring_of(function)
        self.function: Callable[P, R] | None = function
        self.description: str = paragraph if description is None else description
        self.approval: ApprovalPolicy = approval
        self.timeout: float | None = timeout
        self.exclusive: bool = exclusive
        self.eager: bool = eager
        self.once: bool = once
        self.limit: int | None = limit
        self.ends_run: bool = ends_run
        self.strict: bool = strict
        self.describe: Describe | None = describe
        self.conflicts_with: Collection[str] = conflicts_with
        _check_options(self)
        self.conflicts_with = frozenset(conflicts_with)
        self.fields: Mapping[str, Mapping[str, Any]] = {} if fields is None else fields
        if fields is not None:
            check_fields(self.name, fields)
        self.declaration: Mapping[str, Any] | None = None
        self.kind: CallKind = kind
        self.grammar: Grammar | None = grammar
        self.function_kind: FunctionKind = kind_of(function)
        self._schema: Signature | None = None
        self._text_parameter = TEXT_FIELD  # of a custom tool: the parameter of the function that takes the text
        self.context_parameter: str | None = None
        self.parameters: dict[str, Any]
        if parameters is not None:
            self.parameters = object_schema(self.name, parameters)
            self.context_parameter = context_parameter(self.name, function)
        elif function is None:
            self.parameters = {"type": "object", "properties": {}}
        else:
            warn_of_unclear(self.name, function, is_described=description is not None or bool(paragraph))
            self._schema = Signature(self.name, function)
            self.context_parameter = self._schema.context_parameter
            self.parameters = self._schema.json_schema(described)
        if kind == "custom":
            if function is not None:
                self._text_parameter = text_parameter(self.name, self.parameters)
            self.parameters = text_schema()
        if strict:
            from streamkit.tools.strict_schema import check_strict  # few tools are strict

            check_strict(self.name, self.parameters)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as if it were not a tool."""
        if self.function is None:
            raise UsageError(f"tool {self.name} has no function to call")
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def is_declared_as(self, name: str) -> bool:
        """Return True if the tool is declared as a provider's own tool of this name, with or without a version.

        The type ``computer_use_preview`` is a ``computer``.
        """
        kinds = [fields.get("type") for fields in self.fields.values()]
        return any(isinstance(kind, str) and (kind == name or kind.startswith(f"{name}_")) for kind in kinds)

    def replace(self, **options: Unpack[ToolOptions]) -> Tool[P, R]:
        """Return a copy with other options; the tool itself does not change.

        Args:
            options: as for ``Tool``; None for ``name`` or ``description`` keeps the current one.

        Raises:
            UsageError: there is no such option, or it cannot have that value.
        """
        for option in options:
            if option not in ToolOptions.__annotations__:
                known = ", ".join(ToolOptions.__annotations__)
                raise UsageError(f"tool {self.name}: unknown option {option!r}; the options are: {known}")
        replaced = copy.copy(self)
        for option, value in options.items():
            if value is not None or option not in ("name", "description"):
                setattr(replaced, option, value)
        _check_options(replaced)
        replaced.conflicts_with = frozenset(replaced.conflicts_with)
        replaced.fields = {} if replaced.fields is None else replaced.fields
        check_fields(replaced.name, replaced.fields)
        if replaced._schema is not None:
            replaced._schema = replaced._schema.renamed(replaced.name)
        if replaced.kind != "function":
            check_custom(replaced.name, replaced.kind, replaced.grammar, has_schema=False, is_strict=replaced.strict)
        if replaced.strict:
            from streamkit.tools.strict_schema import check_strict  # few tools are strict

            check_strict(replaced.name, replaced.parameters)
        return replaced

    def validate(self, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """Return the keyword arguments for the function (without the ``ToolContext``).

        A text (a call of kind ``custom``) is the value of the only parameter.

        Raises:
            InvalidArguments: the arguments do not fit; the message names each invalid argument, its value and what is
                expected.
        """
        if isinstance(arguments, str):
            names = list(self.parameters.get("properties", ()))
            if len(names) != 1:
                expected = f"an object with: {', '.join(names)}" if names else "an empty object"
                raise InvalidArguments(f"{self.name} was called with a text, but takes {expected}")
            arguments = {names[0]: arguments}
        if not isinstance(arguments, dict):
            raise InvalidArguments(f"{self.name} takes its arguments as an object, not {json_excerpt(arguments)}")
        values = arguments
        if self.strict:
            from streamkit.tools.json_schema import drop_placeholder_nulls  # few tools are strict

            values = drop_placeholder_nulls(arguments, self.parameters, self.parameters)
        if self.kind == "custom":
            text = check_explicit_schema(self.name, values, self.parameters)[TEXT_FIELD]
            values = {self._text_parameter: text}
        if self._schema is not None:
            return self._schema.validate(values, self.parameters)
        if self.kind == "custom":
            return values
        return check_explicit_schema(self.name, values, self.parameters)


class ToolOptions(TypedDict, total=False):
    """The options of ``Tool`` for how it is called and described, each as in ``Tool``."""

    approval: ApprovalPolicy
    timeout: float | None
    exclusive: bool
    eager: bool
    once: bool
    limit: int | None
    ends_run: bool
    conflicts_with: Collection[str]
    strict: bool
    describe: Describe | None
    fields: Mapping[str, Mapping[str, Any]] | None
    name: str | None
    description: str | None


@overload
def tool(
    function: Callable[P, R],
    *,
    kind: CallKind = "function",
    grammar: Grammar | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[P, R]: ...
@overload
def tool(
    *, kind: CallKind = "function", grammar: Grammar | None = None, **options: Unpack[ToolOptions]
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    kind: CallKind = "function",
    grammar: Grammar | None = None,
    **options: Unpack[ToolOptions],
) -> Tool[..., Any] | Callable[[Callable[..., Any]], Tool[..., Any]]:
    """Create a tool from a typed function: ``tool(f, approval="ask")``, ``@tool`` or ``@tool(timeout=5)``.

    Args:
        function: the function to run.
        kind: as for ``Tool``.
        grammar: as for ``Tool``.
        options: as for ``Tool``: ``approval``, ``timeout``, ``exclusive``, ``eager``, ``once``, ``limit``,
            ``ends_run``, ``conflicts_with``, ``strict``, ``describe``, ``fields``, ``name``, ``description``.
    """

    def to_tool(function: Callable[..., Any]) -> Tool[..., Any]:
        if isinstance(function, Tool):
            raise UsageError(f"{function!r} is already a tool")
        return Tool(function, kind=kind, grammar=grammar, **options)

    return to_tool if function is None else to_tool(function)


def _check_options(tool: Tool) -> None:
    """Check the options that a tool is created with and that ``replace`` sets."""
    name, approval, timeout, limit = tool.name, tool.approval, tool.timeout, tool.limit
    conflicts_with, describe = tool.conflicts_with, tool.describe
    if not isinstance(name, str) or not _LEGAL_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a tool: providers take 1 to 64 letters, digits, _ and -; "
            "set another with name="
        )
    if approval not in get_args(ApprovalPolicy):
        raise UsageError(f'tool {name}: approval must be "allow", "ask" or "deny", not {approval!r}')
    for option in ("exclusive", "eager", "once", "ends_run", "strict"):
        if not isinstance(value := getattr(tool, option), bool):  # "no" would be true
            raise UsageError(f"tool {name}: {option} must be True or False, not {value!r}")
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and timeout > 0):
        raise UsageError(f"tool {name}: timeout must be a number of seconds above 0, not {timeout!r}")
    is_integer = isinstance(limit, int) and not isinstance(limit, bool)
    if limit is not None and not (is_integer and limit >= 1):
        raise UsageError(f"tool {name}: limit must be a number of calls of at least 1, not {limit!r}")
    if isinstance(conflicts_with, str) or not isinstance(conflicts_with, Collection):
        raise UsageError(f"tool {name}: conflicts_with must be a list of names, not {conflicts_with!r}")
    if describe is not None and (not callable(describe) or inspect.iscoroutinefunction(describe)):
        raise UsageError(
            f"tool {name}: describe must be a synchronous function of (state, arguments), not {describe!r}"
        )
    if tool.once and tool.eager:
        raise UsageError(f"tool {name} cannot be once and eager: a call that starts early may run again")
