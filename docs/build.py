"""Build the documentation: the guides, and the reference from the docstrings of the public modules.

    python docs/build.py [DIRECTORY]

The pages are written to DIRECTORY, by default ``build/docs``. It needs the extra ``docs``. Whatever pdoc warns about
is an error: a name that does not resolve or an annotation that cannot be evaluated would be missing from the page.
"""

from __future__ import annotations

import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pdoc
from pdoc import doc, render, render_helpers

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "docs"

#: The documents that become pages, by the name of the page.
GUIDES = {
    "readme": ROOT / "README.md",
    **{
        page.stem.replace("_", "-"): page
        for folder in ("tasks", "tables")
        for page in sorted((ROOT / "docs" / folder).glob("*.md"))
    },
    "architecture": ROOT / "docs" / "architecture.md",
    "rules": ROOT / "docs" / "rules.md",
    "request-fields": ROOT / "docs" / "requests.md",
    "tap": ROOT / "docs" / "tap.md",
    "conformance": ROOT / "docs" / "conformance.md",
    "conformance-report": ROOT / "docs" / "conformance-report.md",
    "security": ROOT / "docs" / "security.md",
    "contributing": ROOT / "CONTRIBUTING.md",
    "changelog": ROOT / "CHANGELOG.md",
}
PAGES = {file: name for name, file in GUIDES.items()}
LINK = re.compile(r"\[([^]]+)\]\(([\w./-]+\.md)(#[\w-]+)?\)")

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
    "streamkit.bridges.mcp",
    "streamkit.bridges.prices",
    "streamkit.bridges.run_store",
    "streamkit.bridges.stored_log",
    "streamkit.bridges.vercel_ui",
    "streamkit.testing",
)


def guide(name: str) -> doc.Module:
    """Return a guide as a page whose links lead to pages instead of files; those to other documents are plain text."""
    page = ModuleType(name)
    file = GUIDES[name]

    def lead_to_page(link: re.Match[str]) -> str:
        target = PAGES.get((file.parent / link[2]).resolve())
        return link[1] if target is None else f"[{link[1]}]({target}.html{link[3] or ''})"

    page.__doc__ = LINK.sub(lead_to_page, file.read_text(encoding="utf-8"))
    page.__docformat__ = "markdown"  # type: ignore[attr-defined]  # pdoc reads it
    return doc.Module(page)


def build(output: Path = OUTPUT) -> None:
    """Write all pages.

    Args:
        output: the directory; it is created if necessary.

    Raises:
        UserWarning: pdoc could not document something.
    """
    render.configure(docformat="google", show_source=False)
    render_helpers.markdown_extensions["link-shortrefs"] = None  # [owner/repository#1], defined at a guide's end
    for name in MODULES:  # pdoc forbids to start programs on import, and croniter, which dbos imports, starts one
        import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        pages = {name: guide(name) for name in GUIDES}
        pages |= {name: doc.Module.from_name(name) for name in pdoc.extract.walk_specs(MODULES)}
        for name, page in pages.items():
            file = output / f"{name.replace('.', '/')}.html"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(render.html_module(page, pages), encoding="utf-8")
        (output / "index.html").write_text(render.html_index(pages), encoding="utf-8")
        (output / "search.js").write_text(render.search_index(pages), encoding="utf-8")


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
