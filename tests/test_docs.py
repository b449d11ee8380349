"""The documents agree with the code: the tables of docs/rules.md are complete, citations and links resolve."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from streamkit.calls import ErrorKind
from streamkit.execution import Ended

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "streamkit"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
RULES = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")

PAIRED_CODE = re.compile(r"[a-z]+(_[a-z]+)+")  # in a pair of code and sentence; others may be one word


# ---------------------------------------------------------------- sections and tables


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)


def slug(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def rows(section: str) -> dict[str, str]:
    """Return the rows of the table of a section, by the code in their first column."""
    found = re.findall(r"^\| `([^`]+)` \|(.*)\|$", RULES.split(f"### {section}\n")[1].split("\n#")[0], re.MULTILINE)
    table = dict(found)
    assert len(table) == len(found), "a row is there twice"
    return table


# ---------------------------------------------------------------- warnings


def is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    )


def code_positions(tree: ast.AST) -> dict[str, int]:
    """Return the position of the code in each function with parameters ``code`` and ``message``."""
    positions = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            if "code" in names and "message" in names:
                positions[node.name] = names.index("code")
    return positions


def warning_codes(path: Path, tree: ast.AST, positions: dict[str, int]) -> Iterator[str]:
    """Yield the codes of the warnings that a module can give, read from its source.

    A code is a literal: the argument of a function that warns, or the first of a pair of code and sentence. Anything
    else must forward a warning that exists, which shows in its form: ``code``, ``warning.code``, ``*warning``.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2 and is_sentence(node.elts[1]):
            first = node.elts[0]
            if isinstance(first, ast.Constant) and PAIRED_CODE.fullmatch(str(first.value)):
                yield str(first.value)
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called not in positions or not node.args:
                continue
            code = node.args[min(positions[called], len(node.args) - 1)]
            if isinstance(code, ast.Constant):
                yield str(code.value)
            else:
                forwarded = isinstance(code, ast.Starred) or getattr(code, "attr", getattr(code, "id", "")) == "code"
                assert forwarded, f"{path.name}:{code.lineno}: the code of a warning is a literal"


def test_every_warning_code_is_documented() -> None:
    silent = {"cli", "testing"}  # they give no warnings, and have pairs of other kinds
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in silent
    }
    shared = {"StreamWarning": 0, "Warned": 0}  # the constructors, and the public functions of all modules
    for tree in trees.values():
        shared |= {name: place for name, place in code_positions(tree).items() if not name.startswith("_")}
    given = {code for path, tree in trees.items() for code in warning_codes(path, tree, shared | code_positions(tree))}
    assert given == set(rows("Warning codes"))


def test_the_codes_are_in_order() -> None:
    codes = list(rows("Warning codes"))
    assert codes == sorted(codes)


def test_the_modules_that_warn_exist() -> None:
    if find_spec("streamkit.json_text") is None:
        pytest.skip("the modules do not have their new names yet")
    named = {
        module
        for row in rows("Warning codes").values()
        for module in re.findall(r"`([a-z_.]+)`", row.rsplit("|", 1)[1])
    }
    assert not [module for module in sorted(named) if find_spec(f"streamkit.{module}") is None]


# ---------------------------------------------------------------- the other tables


def test_every_error_kind_is_documented() -> None:
    assert set(rows("Error kinds")) == set(get_args(ErrorKind))


def test_every_end_of_a_run_is_documented() -> None:
    assert set(rows("Values of run.ended")) == set(get_args(Ended))


# ---------------------------------------------------------------- citations and links

#: A citation in code: the path, and the titles that follow it in quotes, also over several lines of a comment.
CITATION = re.compile(r'docs/rules\.md((?:[,:]?[\s#]+(?:and[\s#]+)?"[^"]+")+)')


def test_every_section_that_code_cites_exists() -> None:
    titles = set(headings(RULES))
    missing = []
    for folder in ("streamkit", "tests", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for citation in CITATION.findall(path.read_text(encoding="utf-8")):
                cited = [re.sub(r"\s*\n[\s#]*", " ", title) for title in re.findall(r'"([^"]+)"', citation)]
                missing += [f"{path.relative_to(ROOT)}: {title!r}" for title in cited if title not in titles]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_resolve(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = document.parent / path if path else document
        if not file.exists() or (anchor and anchor not in map(slug, headings(file.read_text(encoding="utf-8")))):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_source_is_defined_once_and_used(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    source = r"\[([\w.-]+/[\w.-]+#\d+)\]"
    defined = re.findall(rf"^{source}: ", text, re.MULTILINE)
    assert len(defined) == len(set(defined))
    assert set(defined) == set(re.findall(rf"{source}(?!: |\()", text))


# ---------------------------------------------------------------- the reference


@pytest.mark.slow
def test_the_reference_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="the reference needs the extra 'docs'")
    built = subprocess.run(
        [sys.executable, "docs/build.py", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    for page in ("index", "streamkit", "streamkit/events", "streamkit/execution"):
        assert (tmp_path / f"{page}.html").exists()
    for guide in ("rules", "architecture", "contributing", "changelog"):
        html = (tmp_path / f"{guide}.html").read_text(encoding="utf-8")
        missing = [anchor for anchor in re.findall(r'href="#([^"]+)"', html) if f'id="{anchor}"' not in html]
        missing += [link for link in re.findall(r'href="([^"]+\.md[^"]*)"', html) if "://" not in link]
        assert not missing, guide
