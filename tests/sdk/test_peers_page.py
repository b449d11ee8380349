"""The names in docs/peers.md are in the packages that are installed, of the versions that the page states.

It runs in the environment of the extra ``peers``, and with the packages of npm; a library that is missing is skipped.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
from pathlib import Path

import pytest
from shared_data import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "peers.md").read_text("utf-8").splitlines()
    if line.startswith("|") and not line.startswith("|---")
]
HEAD, VERSIONS = ROWS[:2]
#: The distribution and the packages of each column.
PEERS = {
    "LiteLLM": ("litellm", ["litellm"]),
    "pydantic-ai": ("pydantic-ai-slim", ["pydantic_ai"]),
    "openai-agents": ("openai-agents", ["agents"]),
    "LangChain": ("langchain-core", ["langchain_core", "langchain", "langgraph"]),
    "instructor": ("instructor", ["instructor"]),
}
NPM = ROOT / "tests" / "vercel" / "node_modules" / "ai"


def column(name: str) -> int:
    return next(at for at, title in enumerate(HEAD) if title.startswith(f"[{name}]"))


def names_in(at: int) -> set[str]:
    """Return the names in a column: the first word of each code."""
    return {re.split(r"\W", code)[0] for row in ROWS[2:] for code in re.findall(r"`(\w[^`]*)`", row[at])}


def missing_from(names: set[str], files: list[Path]) -> set[str]:
    """Return the names that are in none of the files, nor the name of one."""
    left = names - {part for file in files for part in (*file.parts, file.stem)}
    for file in files:
        if not left:
            break
        left -= set(re.findall(r"\w+", file.read_text("utf-8", "replace")))
    return left


@pytest.mark.parametrize("name", PEERS)
def test_a_name_of_a_library_is_in_its_package(name: str) -> None:
    distribution, packages = PEERS[name]
    found = [spec for package in packages if (spec := importlib.util.find_spec(package)) is not None]
    if len(found) < len(packages):
        pytest.skip(f"{name} is not installed as a whole")
    assert importlib.metadata.version(distribution) in VERSIONS[column(name)]
    folders = [Path(folder) for spec in found for folder in spec.submodule_search_locations or []]
    assert missing_from(names_in(column(name)), [file for folder in folders for file in folder.rglob("*.py")]) == set()


def test_a_name_of_streamkit_is_in_its_package() -> None:
    assert HEAD[1] == "streamkit"
    assert len(names_in(1)) > 12
    assert missing_from(names_in(1), list((ROOT / "streamkit").rglob("*.py"))) == set()


def test_a_name_of_the_ai_sdk_is_in_its_package() -> None:
    if not NPM.is_dir():
        pytest.skip("the packages of tests/vercel are not installed")
    assert json.loads((NPM / "package.json").read_text("utf-8"))["version"] == VERSIONS[column("AI SDK")]
    files = [*NPM.rglob("dist/**/*.d.ts"), *NPM.rglob("docs/**/*.mdx")]
    assert missing_from(names_in(column("AI SDK")), files) == set()


def test_the_versions_are_those_that_are_tested_with() -> None:
    if not (pins := ROOT / ".ci" / "peers.txt").exists():
        pytest.skip("a source distribution does not contain .ci")
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", pins.read_text("utf-8"), re.MULTILINE))
    for name, (distribution, _) in PEERS.items():
        if distribution in pinned:
            assert pinned[distribution] in VERSIONS[column(name)], name
