"""The public names: all resolve, all are listed, and importing them loads no more than they need."""

from __future__ import annotations

import ast
import builtins
import collections.abc
import importlib
import importlib.resources
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest

import streamkit
from streamkit import events
from streamkit.providers import Writer

MODULES = ["streamkit", *(module.name for module in pkgutil.walk_packages(streamkit.__path__, "streamkit."))]
NAMES = frozenset(MODULES)
OPTIONAL = {"streamkit.cli", "streamkit.testing", "streamkit.bridges", "streamkit.__main__"}  # need an extra

#: The documented names.
CONTRACT = [
    "Turn",
    "read",
    "detect",
    "Event",
    "events",
    "Limits",
    "NormalizedToolChunk",
    "process_tool_call_chunk",
    "ToolCall",
    "Usage",
    "Finish",
    "StreamError",
    "StreamWarning",
    "ToolResult",
    "Tool",
    "tool",
    "ToolContext",
    "Approval",
    "execute_tool_calls_batched",
    "execute_tool_calls_sequentially",
    "execute_one_tool",
    "finalize_tool_execution",
    "run_loop",
    "RoundContext",
    "ThreadUpdate",
    "Content",
    "render",
    "render_request",
    "StreamkitError",
    "UsageError",
    "UnsupportedContent",
    "StreamInterrupted",
    *("Run", "RunState", "Timeouts", "Retries", "Budget", "TurnOptions", "SharedAccumulator"),
    *("Provider", "Traits", "Accumulator", "writer", "__version__"),
    *("TextBlock", "ImageBlock", "FileBlock", "ReasoningBlock", "ToolCallBlock", "ToolResponseBlock"),
]
#: The modules whose ``__all__`` is public (docs/architecture.md, "Public modules"), beside those that need an extra.
PUBLIC_MODULES = [
    "streamkit",
    *(f"streamkit.{name}" for name in ("calls", "errors", "events", "ids", "reading", "history", "tools", "output")),
    *(f"streamkit.{name}" for name in ("providers", "execution", "testing", "gateway")),
]
#: What is public in these modules alone.
CONTRACT_OF_MODULES = {
    "streamkit.calls": ["CallRef", "ServerCall"],
    "streamkit.errors": ["UnknownProvider", "StreamkitWarning"],
    "streamkit.reading": ["ChoiceView", "StreamReader"],
    "streamkit.history": [
        "Block",
        "CacheMark",
        "OpaqueBlock",
        "ServerToolBlock",
        "UnknownBlock",
        "convert_to_vercel_messages",
    ],
    "streamkit.tools": ["Grammar", "HostedTool"],
    "streamkit.output": ["Change"],
    "streamkit.providers": ["ModelFacts", "ToolChoice", "WireTraits", "Writer"],
    "streamkit.execution": (
        [
            "Approve",
            "AroundCall",
            "Checkpoint",
            "CreateStream",
            "Execution",
            "QueuedCall",
            "Round",
            "RunEntry",
            "parse_entry",
        ]
    ),
}


def load_if_installed(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


@pytest.fixture(scope="module")
def modules() -> list[ModuleType]:
    """Return all modules of the package except those whose extra is not installed."""
    loaded = []
    for name in MODULES:
        try:
            loaded.append(importlib.import_module(name))
        except ModuleNotFoundError:  # an extra is not installed
            if not any(name == package or name.startswith(f"{package}.") for package in OPTIONAL):
                raise
    return loaded


def test_a_public_name_is_not_replaced_by_a_module_of_its_package() -> None:
    """Importing a module sets the attribute of that name of its package: a function that has it would be lost."""
    checked = 0
    for name in MODULES:
        names = getattr(load_if_installed(name), "__all__", ())
        for attribute in names:
            if f"{name}.{attribute}" in NAMES:
                importlib.import_module(f"{name}.{attribute}")
                own = getattr(importlib.import_module(name), attribute)
                assert inspect.ismodule(own) == (name == "streamkit"), f"{name}.{attribute}"
                checked += 1
    assert checked > 1


def test_the_contract_is_exported() -> None:
    assert [name for name in CONTRACT if name not in streamkit.__all__] == []
    assert [name for name in CONTRACT if getattr(streamkit, name) is None] == []


def test_what_few_programs_need_is_public_in_its_module() -> None:
    missing = []
    for module, names in CONTRACT_OF_MODULES.items():
        loaded = importlib.import_module(module)
        missing += [f"{module}.{name}" for name in names if name not in loaded.__all__ or not hasattr(loaded, name)]
    assert missing == []


def test_the_top_has_only_what_most_programs_need() -> None:
    assert len(streamkit.__all__) <= 65


def test_every_public_name_resolves() -> None:
    assert [name for name in streamkit.__all__ if getattr(streamkit, name) is None] == []
    assert [name for name in streamkit.__all__ if name not in dir(streamkit)] == []


def test_public_names_are_unique_and_all_are_listed() -> None:
    assert len(set(streamkit.__all__)) == len(streamkit.__all__)
    submodules = {module.name for module in pkgutil.iter_modules(streamkit.__path__)}
    allowed = {"annotations", "TYPE_CHECKING", "Any", "import_module", "lazy_names"}
    public = {name for name in vars(streamkit) if not name.startswith("_")}
    assert public - submodules - allowed - set(streamkit.__all__) == set()


@pytest.mark.parametrize(
    "package", ["streamkit", "execution", "gateway", "history", "output", "providers", "reading", "tools"]
)
def test_type_checkers_see_the_names_that_load_on_first_use(package: str) -> None:
    path = Path(str(streamkit.__file__)).parent / package.removeprefix("streamkit") / "__init__.py"
    tree = ast.parse(path.read_text("utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    (table,) = (
        ast.literal_eval(node.args[1])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy_names"
    )
    loaded = [name for names in table.values() for name in names.split()]
    module = importlib.import_module("streamkit" if package == "streamkit" else f"streamkit.{package}")
    assert sorted(imported) == sorted(loaded)
    assert imported <= {*module.__all__, *vars(module)}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        streamkit.no_such_name  # noqa: B018


def test_the_names_in_all_exist(modules: list[ModuleType]) -> None:
    listed = [(module, name) for module in modules for name in getattr(module, "__all__", ())]
    assert listed
    assert [f"{module.__name__}.{name}" for module, name in listed if not hasattr(module, name)] == []


def unlisted_names(module: ModuleType) -> list[str]:
    """Return the public classes and functions that a module with ``__all__`` defines and does not list."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
        and name not in getattr(module, "__all__", vars(module))
    ]


def test_a_module_lists_every_class_and_function_that_another_imports(modules: list[ModuleType]) -> None:
    imported = [
        f"{other.__name__} imports {module.__name__}.{name}, which is not listed"
        for module in modules
        for name in unlisted_names(module)
        for other in modules
        if other is not module and vars(other).get(name) is getattr(module, name)
    ]
    assert imported == []


def docstring(module: ModuleType) -> str:
    """Return the docstring of a module's source; a compiled module has none of its own."""
    path = Path(str(module.__file__))
    return ast.get_docstring(ast.parse(path.with_name(f"{path.name.partition('.')[0]}.py").read_text("utf-8"))) or ""


def test_every_module_has_a_docstring(modules: list[ModuleType]) -> None:
    assert [module.__name__ for module in modules if not docstring(module).strip()] == []


def imported_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after a statement."""
    program = f"import sys; {statement}; print(' '.join(sys.modules))"
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return set(process.stdout.split())


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


SDKS = {"openai", "anthropic", "google", "mistralai", "groq", "cohere", "ollama", "boto3", "botocore"}
TURN = "import streamkit; t = streamkit.Turn('openai_chat'); t.feed(b'data: [DONE]\\n\\n'); t.close()"


@pytest.mark.parametrize("statement", ["import streamkit", TURN])
def test_importing_and_feeding_loads_neither_pydantic_nor_anyio_nor_an_sdk(statement: str) -> None:
    heavy = SDKS | {"pydantic", "pydantic_core", "anyio", "asyncio", "trio", "sniffio", "httpx", "starlette"}
    assert packages(imported_by(statement)) & heavy == set()


def test_importing_the_reader_loads_anyio_but_neither_pydantic_nor_execution() -> None:
    modules = imported_by("import streamkit.reading.stream_reader")
    assert "anyio" in modules
    assert packages(modules) & (SDKS | {"pydantic", "pydantic_core", "asyncio", "trio", "httpx"}) == set()
    assert not [name for name in modules if name.startswith("streamkit.execution")]


def test_running_tools_loads_no_sdk() -> None:
    assert (
        packages(imported_by("import streamkit; streamkit.run_loop; streamkit.tool; streamkit.Content")) & SDKS == set()
    )


#: Halves of the package that only some runs need: each is imported where it is used.
RARELY_USED = {
    *("accumulator.call_copies", "history.builder", "history.vercel", "json_text.reader", "output.growing"),
    *("output.output_type", "tools.json_schema", "tools.strict_schema"),
    *("execution.durable.entries", "execution.durable.recorder", "execution.durable.state", "execution.shared"),
}


#: A program of the checkout, which does not have to be importable where the package is installed.
FIRST_LOOP = f"import sys; sys.path.append({str(Path(__file__).parents[1])!r}); import benchmarks.first_loop"


def test_a_run_with_one_tool_loads_only_what_it_runs() -> None:
    modules = imported_by(FIRST_LOOP)
    own = {name.removeprefix("streamkit.") for name in modules if name.startswith("streamkit.")}
    assert {"execution.run.run", "tools.tool", "history.content"} <= own
    assert own & RARELY_USED == set()
    assert (
        modules & {"difflib", "pkgutil", "anyio.from_thread", "pydantic.type_adapter", "pydantic.root_model"} == set()
    )
    assert len(own) <= 122


BUILT = f"""
{FIRST_LOOP}
from pydantic import BaseModel

def subclasses(model):
    for each in model.__subclasses__():
        yield each
        yield from subclasses(each)

print(*[each.__name__ for each in subclasses(BaseModel) if each.__pydantic_complete__])
"""


def test_a_run_with_one_tool_builds_no_validator_but_that_of_the_tool() -> None:
    process = subprocess.run([sys.executable, "-W", "error", "-c", BUILT], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["weather"]


# ---------------------------------------------------------------- types of the signatures

#: Types that a provider implements or uses (``streamkit.providers.provider``), and the choice of the accumulator.
INTERNAL_TYPES = {
    "Choice",
    "ChoiceSink",
    "IdRule",
    "Parser",
    "RenderOptions",
    "RenderedMessages",
    "RequestReader",
    "Rule",
    "Sink",
}


def classes_in(annotation: Any) -> set[type]:
    """Return the classes of this package in a resolved annotation."""
    if inspect.isclass(annotation) and not get_args(annotation):
        return {annotation} if annotation.__module__.startswith("streamkit.") else set()
    inner = [each for item in get_args(annotation) for each in (item if isinstance(item, list) else [item])]
    return {found for item in inner for found in classes_in(item)}


def functions_of(value: Any) -> Iterator[Callable[..., Any]]:
    """Yield a public function, or the public methods and properties of a public class."""
    if inspect.isfunction(value):
        yield value
    elif inspect.isclass(value):
        for name, member in inspect.getmembers(value):
            if name.startswith("_") and name not in ("__enter__", "__aenter__"):
                continue
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function) and function.__module__.startswith("streamkit."):
                yield function


class Names(dict[str, Any]):
    """Names of annotations; one that is imported under TYPE_CHECKING only, and not public, becomes an empty class."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return type(name, (), {"__module__": "streamkit.unknown"})


def return_type(function: Callable[..., Any]) -> Any:
    """Return the resolved return annotation of a function."""

    def holder() -> None: ...

    holder.__annotations__ = {"return": function.__annotations__.get("return")}
    modules = [streamkit, importlib.import_module("streamkit.execution")]
    public = {"Writer": Writer} | {name: getattr(module, name) for module in modules for name in module.__all__}
    names = Names(vars(collections.abc) | public | vars(events) | vars(sys.modules[function.__module__]))
    return get_type_hints(holder, localns=names)["return"]


def _is_class(module: ModuleType, name: str) -> bool:
    try:
        return inspect.isclass(getattr(module, name))
    except ModuleNotFoundError:  # of an extra that is not installed
        return False


def test_every_class_that_a_public_function_returns_is_exported() -> None:
    values = {name: getattr(streamkit, name) for name in streamkit.__all__}
    loaded = [importlib.import_module(name) for name in PUBLIC_MODULES if name != "streamkit.gateway"]
    public = {getattr(module, name) for module in loaded for name in module.__all__ if _is_class(module, name)}
    functions = [function for value in values.values() if callable(value) for function in functions_of(value)]
    assert functions
    missing = {
        function.__qualname__: {found.__name__ for found in classes_in(return_type(function)) - public} - INTERNAL_TYPES
        for function in functions
    }
    assert {name: classes for name, classes in missing.items() if classes} == {}


def test_the_version_is_that_of_the_distribution() -> None:
    assert streamkit.__version__ == version("streamkit-llm")


def test_the_package_runs_as_a_program() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "streamkit", "--version"], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout.split()[0]) == (0, "streamkit")


def test_the_package_is_typed() -> None:
    assert (importlib.resources.files("streamkit") / "py.typed").is_file()
