"""Build the site: the pages of ``docs/``, the README and its companions, and the reference from the docstrings.

    python docs/build.py [DIRECTORY]

The result is a directory of HTML (by default ``build/docs``) with ``llms.txt``. It needs the extra ``docs``. Zensical
builds the pages, pdoc the reference. A warning of either is an error: a dead link or anchor, a page that is not in the
navigation, a name that does not resolve, an annotation that cannot be evaluated.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pdoc
from pdoc import doc, render

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
WORK = ROOT / "build" / "site"  # what Zensical reads; it wants its output below the configuration
OUTPUT = ROOT / "build" / "docs"

#: The documents outside of docs/ that are pages.
OUTSIDE = {
    ROOT / "README.md": "index.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "SECURITY.md": "report.md",
    ROOT / "benchmarks" / "README.md": "benchmarks.md",
}
LINK = re.compile(r"\]\(([^)\s]+)\)")
LINKED = re.compile(r"\[([^\]]*)\]\([^)\s]+\)")
FENCE = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)

#: The modules that people import from. Everything else is internal.
MODULES = (
    "streamkit",  # and streamkit.events, which it exports
    "streamkit.calls",
    "streamkit.errors",
    "streamkit.tools",
    "streamkit.output",
    "streamkit.reading",
    "streamkit.execution",
    "streamkit.history",
    "streamkit.ids",
    "streamkit.providers",
    "streamkit.gateway",
    "streamkit.bridges.ag_ui",
    "streamkit.bridges.dbos",
    "streamkit.bridges.event_log",
    "streamkit.bridges.http",
    "streamkit.bridges.mcp",
    "streamkit.bridges.otel",
    "streamkit.bridges.prices",
    "streamkit.bridges.run_store",
    "streamkit.bridges.stored_log",
    "streamkit.bridges.vercel_ui",
    "streamkit.testing",
)


def find_pages() -> dict[Path, str]:
    """Return the path of each page on the site, by the file that it is made from."""
    return {**OUTSIDE, **{file: file.relative_to(DOCS).as_posix() for file in sorted(DOCS.rglob("*.md"))}}


def to_page(file: Path, pages: dict[Path, str]) -> str:
    """Return the Markdown of a page: links lead to pages, those to other files of the repository are plain text."""
    here = Path(pages[file]).parent

    def lead_to_page(link: re.Match[str]) -> str:
        path, mark, anchor = link[1].partition("#")
        if "://" in path or not path:
            return link[0]
        target = (file.parent / path).resolve()
        if target in pages:
            path = os.path.relpath(pages[target], here)
        elif not target.is_relative_to(DOCS):
            raise ValueError(f"{file.relative_to(ROOT)}: {link[1]} is not a page of the site")
        return f"]({path}{mark}{anchor})"

    parts = FENCE.split(file.read_text(encoding="utf-8"))
    for at, part in enumerate(parts):
        if not part.startswith(
            "```"
        ):  # Python-Markdown takes four spaces for what belongs to an item "1. ", GitHub three
            part = re.sub(r"^   (?=.)", "    ", part, flags=re.MULTILINE)
        parts[at] = part if at % 2 else LINK.sub(lead_to_page, part)
    return "".join(parts)


def expand_cookbook(configuration: str) -> str:
    """Return the configuration with the pages of ``cookbook/`` in the place of the folder, or without the folder."""
    index = DOCS / "cookbook" / "index.md"
    if not index.exists():
        return re.sub(r".*= \"cookbook/\".*\n", "", configuration)
    names = dict.fromkeys(
        ["index.md", *re.findall(r"^\|.*\]\((\w+\.md)\) \|$", index.read_text("utf-8"), re.MULTILINE)]
    )
    return configuration.replace('"cookbook/"', json.dumps([f"cookbook/{name}" for name in names]))


def navigation(entries: list[dict[str, Any]] | list[str]) -> list[str]:
    """Return the pages of a navigation in their order."""
    pages: list[str] = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            pages += navigation(value) if isinstance(value, list) else [value]
    return pages


def write_reference(folder: Path) -> None:
    """Write the reference of the public modules.

    Raises:
        UserWarning: pdoc could not document something.
    """
    render.configure(docformat="google", show_source=False, template_directory=DOCS / "pdoc")
    for name in MODULES:  # pdoc forbids to start programs on import, and croniter, which dbos imports, starts one
        import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        modules = {name: doc.Module.from_name(name) for name in pdoc.extract.walk_specs(MODULES)}
        for name, module in modules.items():
            file = folder / f"{name.replace('.', '/')}.html"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(render.html_module(module, modules), encoding="utf-8")
        (folder / "index.html").write_text(render.html_index(modules), encoding="utf-8")
        (folder / "search.js").write_text(render.search_index(modules), encoding="utf-8")


def list_modules() -> str:
    """Return the page that leads to the reference: the public modules, each with the first line of its docstring."""
    rows = []
    for name in MODULES:
        about = (import_module(name).__doc__ or "").partition("\n")[0]
        rows.append(f"| [`{name}`](reference/{name.replace('.', '/')}.html) | {about} |")
    return (
        """\
# Reference

At the end of this page you know which module has what you look for; each leads to its own page, made from its
docstrings.

The names in `__all__` of these modules are public. All other modules may change at any time.

| Module | What it is |
|---|---|
"""
        + "\n".join(rows)
        + "\n"
    )


def summary(page: str) -> str:
    """Return the line of ``llms.txt`` about a page: its title and its first paragraph."""
    title, _, rest = page.partition("\n")
    first = next(part for part in rest.strip().split("\n\n") if not part.startswith(("#", "```", "|", "- ")))
    text = LINKED.sub(r"\1", " ".join(first.split()))
    return f"{title.removeprefix('# ')}]({{}}): {text}"


def build(output: Path = OUTPUT) -> None:
    """Write the site.

    Args:
        output: the directory; it is replaced.

    Raises:
        ValueError: a link leads to a file that is not a page, or a page is not in the navigation.
        CalledProcessError: Zensical has reported a dead link or something else.
        UserWarning: pdoc could not document something.
    """
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(
        DOCS, WORK / "pages", ignore=shutil.ignore_patterns("*.md", "*.py", "*.toml", "__pycache__", "pdoc")
    )
    configuration = expand_cookbook((DOCS / "zensical.toml").read_text("utf-8"))
    (WORK / "zensical.toml").write_text(configuration, encoding="utf-8")
    files = find_pages()
    pages = {path: to_page(file, files) for file, path in files.items()} | {"reference.md": list_modules()}
    for path, text in pages.items():
        (WORK / "pages" / path).parent.mkdir(parents=True, exist_ok=True)
        (WORK / "pages" / path).write_text(text, encoding="utf-8")
    project = tomllib.loads(configuration)["project"]
    order = navigation(project["nav"])
    if set(order) != set(pages):
        raise ValueError(f"pages or entries of the navigation without the other: {sorted(set(order) ^ set(pages))}")
    lines = [f"- [{summary(pages[path]).format(path)}" for path in order]
    text = f"# streamkit\n\n> {project['site_description']}\n\n## Pages\n\n" + "\n".join(lines) + "\n"
    (WORK / "pages" / "llms.txt").write_text(text, encoding="utf-8")
    write_reference(WORK / "pages" / "reference")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    subprocess.run(command, cwd=WORK, check=True)  # noqa: S603 - the command above
    for path, page in pages.items():  # llms.txt leads to the pages as Markdown
        (WORK / "site" / path).write_text(page, encoding="utf-8")
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(WORK / "site", output)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
