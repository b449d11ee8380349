"""Sets of tools: chosen, renamed, set up, put together; the tools themselves never change."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable
from typing import Any, Literal

import pytest

from streamkit import Content, ToolCall, UsageError, execute_tool_calls_batched, providers, render_request, run_loop
from streamkit.history import TextBlock, ToolCallBlock
from streamkit.tools import InvalidArguments, Tool, ToolContext, to_tools, tool
from streamkit.tools.tool import ToolOptions
from streamkit.tools.toolset import ToolSet


def read(path: str) -> str:
    """Read a file."""
    return f"read {path}"


def write(path: str, text: str = "") -> str:
    return f"wrote {text!r} to {path}"


def delete(path: str) -> str:
    return f"deleted {path}"


def files() -> ToolSet:
    return ToolSet([read, tool(write, conflicts_with=["delete", "write"]), tool(delete, conflicts_with=["other"])])


def test_it_is_a_sequence_of_tools_in_order() -> None:
    tools = files()
    assert tools.names == ("read", "write", "delete")
    assert [made.name for made in tools] == ["read", "write", "delete"]
    assert len(tools) == 3
    assert (tools[0].name, tools[-1].name, tools[1:].names) == ("read", "delete", ("write", "delete"))
    assert isinstance(tools[1:], ToolSet)
    assert "read" in tools
    assert tools[0] in tools
    assert "list" not in tools
    assert tool(read) not in tools
    assert list(to_tools(tools)) == ["read", "write", "delete"]
    assert repr(tools) == "<ToolSet read, write, delete>"
    assert (len(ToolSet()), repr(ToolSet())) == (0, "<ToolSet of no tools>")
    assert list(reversed(tools)) == [tools[2], tools[1], tools[0]]
    with pytest.raises(AttributeError):
        tools.tools = []  # type: ignore[attr-defined]


def test_a_generator_of_tools_is_read_once() -> None:
    tools = ToolSet(made for made in (read, write))
    assert tools.names == tools.names == ("read", "write")


@pytest.mark.parametrize("given", [None, 3, "read", {"read": read}, read, [3]])
def test_a_value_that_is_not_a_list_of_tools_is_refused(given: Any) -> None:
    with pytest.raises(UsageError):
        ToolSet(given)


def test_two_tools_with_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools have the name 'read'"):
        ToolSet([read, tool(write, name="read")])
    with pytest.raises(UsageError, match="two tools have the name 'read'"):
        files() + [read]  # noqa: RUF005 - it is what is tested


def test_tools_are_allowed_or_denied_by_name() -> None:
    assert files().allow("delete", "read").names == ("read", "delete")
    assert files().deny("delete").names == ("read", "write")
    assert files().allow().names == ()
    assert files().deny().names == ("read", "write", "delete")
    assert files().names == ("read", "write", "delete")


def test_a_pattern_selects_all_matching_tools() -> None:
    tools = ToolSet(
        tool(read, name=name) for name in ("github_get_issue", "github_get_file", "github_delete", "search")
    )
    assert tools.allow("github_get_*").names == ("github_get_issue", "github_get_file")
    assert tools.deny("github_*").names == ("search",)
    assert tools.allow("*_delete", "s?arch").names == ("github_delete", "search")
    assert tools.allow("[gs]*").names == tools.names


@pytest.mark.parametrize(
    "use",
    [
        lambda tools: tools.allow("reed"),
        lambda tools: tools.deny("reed"),
        lambda tools: tools.rename({"reed": "r"}),
        lambda tools: tools.configure("reed", timeout=1),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_the_nearest_names_first(use: Any) -> None:
    with pytest.raises(UsageError, match="no tool has the name 'reed'; the tools are: read, "):
        use(files())


def test_a_pattern_without_a_match_is_an_error() -> None:
    for use in (files().deny, files().allow):
        with pytest.raises(UsageError, match=r"no tool has the name 'remove_\*'; the tools are: "):
            use("remove_*")
    with pytest.raises(UsageError, match=r"no tool has the name 'READ'"):
        files().deny("READ")
    with pytest.raises(UsageError, match="the set is empty"):
        ToolSet().allow("read")


def test_the_error_lists_the_nearest_of_many_tools() -> None:
    many = ToolSet(tool(read, name=f"tool_{n}") for n in range(300))
    with pytest.raises(UsageError, match=r"the tools are: tool_17, (\S+, ){18}\S+ and 280 more$"):
        many.allow("tol_17")


def test_names_must_be_separate_arguments() -> None:
    with pytest.raises(UsageError, match=r'separate arguments, as in allow\("a", "b"\), not \[\'read\'\]'):
        files().allow(["read"])  # type: ignore[arg-type]


def test_a_renamed_tool_calls_the_same_function() -> None:
    tools = files()
    renamed = tools.rename({"read": "open_file"})
    assert renamed.names == ("open_file", "write", "delete")
    assert renamed[0].function is read
    assert renamed[0]("a") == "read a"
    assert renamed[0].description == "Read a file."
    assert renamed[0].validate({"path": "a"}) == {"path": "a"}
    with pytest.raises(InvalidArguments, match="do not fit open_file: path is missing"):
        renamed[0].validate({})
    with pytest.raises(InvalidArguments, match="do not fit read: path is missing"):
        tools[0].validate({})
    assert tools.names == ("read", "write", "delete")


def test_two_may_swap_their_names() -> None:
    swapped = files().rename({"read": "write", "write": "read"})
    assert [(made.name, made.function) for made in swapped] == [("write", read), ("read", write), ("delete", delete)]


def test_conflicts_are_updated_to_the_new_names() -> None:
    renamed = files().rename({"write": "put", "delete": "remove"})
    assert renamed[1].conflicts_with == {"remove", "put"}
    assert renamed[2].conflicts_with == {"other"}
    others = files().rename({"delete": "remove"})
    assert (others[1].name, others[1].conflicts_with) == ("write", {"remove", "write"})
    assert files()[1].conflicts_with == {"delete", "write"}


def test_a_prefix_separates_two_sources() -> None:
    tools = files().prefix("a_") + files().prefix("b_")
    assert tools.names == ("a_read", "a_write", "a_delete", "b_read", "b_write", "b_delete")
    assert tools[4].conflicts_with == {"b_delete", "b_write"}
    assert tools[5].conflicts_with == {"other"}


@pytest.mark.parametrize("name", ["", "with space", "x" * 65, None, 3])
def test_a_new_name_must_be_allowed(name: Any) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a tool"):
        files().rename({"read": name})


def test_a_new_name_must_be_unused() -> None:
    with pytest.raises(UsageError, match="two tools have the name 'write'"):
        files().rename({"read": "write"})
    with pytest.raises(UsageError, match="cannot be the name of a tool"):
        files().prefix("x" * 60)


def test_sets_and_lists_are_concatenated() -> None:
    def search(query: str) -> str:
        return query

    assert (files() + [search]).names == ("read", "write", "delete", "search")  # noqa: RUF005
    assert ([search] + files()).names == ("search", "read", "write", "delete")  # noqa: RUF005
    assert (ToolSet([search]) + files()).names == ("search", "read", "write", "delete")
    assert isinstance([search] + files(), ToolSet)  # noqa: RUF005
    with pytest.raises(TypeError):
        files() + 3  # type: ignore[operator]


def test_options_are_changed_by_name() -> None:
    tools = files()
    changed = tools.configure("delete", approval="ask", timeout=5, strict=True)
    assert (changed[2].approval, changed[2].timeout, changed[2].strict) == ("ask", 5, True)
    assert (tools[2].approval, tools[2].timeout, tools[2].strict) == ("allow", None, False)
    assert changed[0] is tools[0]
    both = tools.configure("re*", "delete", limit=1, description="Said anew.", conflicts_with=["write"])
    assert [made.limit for made in both] == [1, None, 1]
    assert [made.description for made in both] == ["Said anew.", "", "Said anew."]
    assert both[0].conflicts_with == frozenset({"write"})
    assert tools.configure("read", description=None)[0].description == "Read a file."
    assert tools.configure("read", description="")[0].description == ""


SWITCHES = [option for option, kind in ToolOptions.__annotations__.items() if "bool" in str(kind)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"approval": "perhaps"}, "tool read: approval must be"),
        ({"timeout": 0}, "tool read: timeout must be"),
        ({"limit": 0}, "tool read: limit must be"),
        ({"conflicts_with": "write"}, "tool read: conflicts_with must be a list"),
        *(({option: "no"}, f"tool read: {option} must be True or False, not 'no'") for option in SWITCHES),
        ({"once": None}, "tool read: once must be True or False, not None"),
        ({"colour": "red"}, "tool read: unknown option 'colour'; the options are: approval, timeout"),
        ({"parameters": {}}, "tool read: unknown option 'parameters'"),
        ({"name": "x"}, r"rename\(\{old: new\}\)"),
    ],
)
def test_an_invalid_option_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        files().configure("read", **options)


def test_a_tool_that_is_made_strict_is_checked() -> None:
    def tally(counts: dict[str, int]) -> None: ...

    with pytest.raises(UsageError, match="tool tally cannot be strict: counts is an open object"):
        ToolSet([tally]).configure("tally", strict=True)


def test_a_tool_keeps_its_subclass() -> None:
    class Remote(Tool):
        def __init__(self, server: str) -> None:
            super().__init__(read, name="read")
            self.server = server

    (made,) = ToolSet([Remote("s")]).prefix("s_")
    assert isinstance(made, Remote)
    assert (made.name, made.server) == ("s_read", "s")


def test_a_request_accepts_a_set() -> None:
    body = render_request([Content.human("Hi.")], "openai_chat", tools=files().allow("read").prefix("f_"))
    assert [made["function"]["name"] for made in body["tools"]] == ["f_read"]


@pytest.mark.anyio
async def test_the_executors_accept_a_set_and_call_renamed_tools() -> None:
    seen = []

    def who(context: ToolContext, n: int = 1) -> str:
        seen.append((context.call.name, n))
        return "me"

    call = ToolCall(
        id=f"hist_tool_{0:024d}", name="x_who", index=0, raw_id="c0", state="complete", arguments={"n": None}
    )
    tools = ToolSet([tool(who, strict=True)]).prefix("x_")
    update = await execute_tool_calls_batched([call], tools=tools, provider="openai_chat")
    assert [(result.status, result.value) for result in update.results] == [("completed", "me")]
    assert seen == [("x_who", 1)]


@pytest.mark.anyio
async def test_the_loop_accepts_a_set() -> None:
    chat = providers.get("openai_chat")
    called = ToolCallBlock(id="call_1", name="f_read", parameters={"path": "a"})
    answers = [
        Content(speaker="ai", blocks=[called]),
        Content(speaker="ai", blocks=[TextBlock(text="Done.")]),
    ]
    asked: list[dict[str, Any]] = []

    def ask(context: Any) -> list[bytes]:
        asked.append(context.request)
        return list(chat.emit(answers[len(asked) - 1], response_id=f"r{len(asked)}", model="m"))

    async with run_loop(
        ask, provider="openai_chat", tools=files().prefix("f_"), history=[Content.human("Read.")]
    ) as run:
        async for _ in run:
            pass
    assert run.ended == "answered"
    assert run.text == "Done."
    assert [made["function"]["name"] for made in asked[0]["tools"]] == ["f_read", "f_write", "f_delete"]
    assert [message["content"] for message in asked[1]["messages"] if message["role"] == "tool"] == ["read a"]


def create_function() -> Any:
    def search(query: str, limit: int = 3) -> str:
        """Search."""
        return query

    return search


def test_a_function_is_inspected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    search = create_function()
    first = to_tools([search])["search"]
    monkeypatch.setattr(Tool, "__init__", None)  # a tool that is made again would raise
    second = to_tools([search])["search"]
    assert (first.function, second.function) == (search, search)
    assert second is not first
    assert second.parameters == first.parameters
    assert second.validate({"query": "x"}) == {"query": "x", "limit": 3}


CHANGES: dict[str, Callable[[Any], None]] = {
    "docstring": lambda search: setattr(search, "__doc__", "Search today's news."),
    "annotation": lambda search: search.__annotations__.update(query=Literal["a", "b"]),
    "defaults": lambda search: setattr(search, "__defaults__", (5,)),
    "name": lambda search: setattr(search, "__name__", "find"),
    "signature": lambda search: setattr(search, "__signature__", inspect.Signature()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_function_that_has_changed_is_inspected_again(change: str) -> None:
    search = create_function()
    [before] = to_tools([search]).values()
    CHANGES[change](search)
    [after] = to_tools([search]).values()
    expected = Tool(search)
    assert (after.name, after.description, after.parameters) == (
        expected.name,
        expected.description,
        expected.parameters,
    )
    assert (after.name, after.description, after.parameters) != (before.name, before.description, before.parameters)


def test_a_function_of_which_a_tool_was_made_can_be_collected() -> None:
    search = create_function()
    reference = weakref.ref(search)
    to_tools([search])
    del search
    gc.collect()
    assert reference() is None
