"""The documents agree with the code: the tables of docs/rules.md are complete, citations and links resolve."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

from streamkit.calls import ErrorKind, WarningCode
from streamkit.execution import Ended

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RULES = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")


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


def test_every_warning_code_is_documented() -> None:
    assert set(rows("Warning codes")) == set(get_args(WarningCode))


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


# ---------------------------------------------------------------- modules and names of the code

#: Folders that a path in a document may be relative to: a wire's files are the same in each provider.
FOLDERS = [
    ROOT,
    ROOT / "streamkit",
    *(path for path in (ROOT / "streamkit").rglob("*") if path.is_dir()),
    ROOT / "tests",
]


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_that_a_document_names_exists(document: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)`", text))
    assert named
    assert not [path for path in sorted(named) if not any((folder / path).exists() for folder in FOLDERS)]


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_module_and_name_that_a_document_gives_exists(document: str) -> None:
    """A dotted name that begins with a package of streamkit is a module, or a name in one."""
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    packages = "|".join(path.stem for path in (ROOT / "streamkit").iterdir() if not path.name.startswith(("_", ".")))
    named = set(re.findall(rf"`(?:streamkit\.)?((?:{packages})(?:\.(?!py`)\w+)+)`", text))
    assert named
    assert not [name for name in sorted(named) if not resolves(f"streamkit.{name}")]


def resolves(name: str) -> bool:
    """Return True if a dotted name is a module, or a name in one."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        try:
            value: object = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        return all((value := getattr(value, part, None)) is not None for part in parts[end:])
    return False


# ---------------------------------------------------------------- the site


def first_sentence(page: str) -> str:
    return " ".join(page.split("\n\n")[1].split()).split(". ")[0]


#: The specification, and the generated tables of requests.
TO_LOOK_UP = {"requests.md", "rules.md"}


@pytest.mark.parametrize(
    "page",
    [
        *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in TO_LOOK_UP),
        *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")),
    ],
    ids=lambda page: page.name,
)
def test_a_page_begins_with_what_its_reader_will_have(page: Path) -> None:
    begins = ("At the end of this page", "After this page", "You will have", "You will find")
    assert first_sentence(page.read_text("utf-8")).startswith(begins)


def test_every_page_is_in_the_navigation() -> None:
    """The pages of a cookbook are there by its index; the build makes six pages from files that are not in docs/."""
    named = set(re.findall(r'= "([\w/]+\.md)"', (ROOT / "docs" / "zensical.toml").read_text("utf-8")))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    made = {"index.md", "contributing.md", "changelog.md", "report.md", "benchmarks.md", "reference.md"}
    assert {page for page in pages if not page.startswith("cookbook/")} == named - made


def build_site(output: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Build the site, or skip the test where a tool for it is missing."""
    for tool in ("pdoc", "zensical"):
        pytest.importorskip(tool, reason="the site needs the extra 'docs'")
    return subprocess.run(
        [sys.executable, "docs/build.py", str(output)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    built = build_site(tmp_path / "site")
    assert built.returncode == 0, built.stdout + built.stderr
    for module in ("index", "streamkit", "streamkit/events", "streamkit/execution", "streamkit/bridges/dbos"):
        assert (tmp_path / "site" / "reference" / f"{module}.html").exists()
    listed = re.findall(r"^- \[.+?\]\((.+?)\): .", (tmp_path / "site" / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert len(listed) >= 35
    abouts = re.findall(r"^- \[.+?\]\(.+?\): (.+)", (tmp_path / "site" / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert [about for about in abouts if about.startswith(("#", "```", "|")) or "[" in about] == []
    for page in listed:  # each as a page and as Markdown
        assert (tmp_path / "site" / page).exists()
        html = (tmp_path / "site" / page).with_suffix(".html").read_text("utf-8")
        assert not [link for link in re.findall(r'href="([^"]+\.md[^"]*)"', html) if "://" not in link]
        assert "<p>```" not in html, "a program that is shown as text"
        assert not re.search(r'<(?:link|script)[^>]+(?:href|src)="https?:', html), "something is loaded from elsewhere"


@pytest.mark.slow
@pytest.mark.parametrize("link", ["missing.md", "rules.md#no-such-section", "../streamkit/ids.py"])
def test_a_dead_link_fails(tmp_path: Path, link: str) -> None:
    ignored = shutil.ignore_patterns(".*", "build", "node_modules")
    for folder in ("docs", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for file in ROOT.glob("*.md"):
        shutil.copy(file, tmp_path)
    page = tmp_path / "docs" / "guarantees.md"
    page.write_text(f"{page.read_text('utf-8')}\n[dead]({link})\n", encoding="utf-8")
    assert build_site(tmp_path / "site", tmp_path).returncode != 0
