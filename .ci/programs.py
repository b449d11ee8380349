"""Run the programs of the README, the pages and the cookbook as a reader does who has installed a wheel.

    .venv/bin/python .ci/programs.py WHEEL [PYTHON]

The programs of each page of the cookbook run with PYTHON (by default this one) in an environment of their own, which
has what the page's line ``pip install`` names and nothing else: neither the checkout nor a package that the page
forgets. The tests of the page, which run here, play the providers. The other programs run with the extra ``cli``; those
that need a further package are skipped.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COOKBOOK = ROOT / "docs" / "cookbook"
#: The packages of which a page takes one, beside the one in its line.
SDKS = ["anthropic", "boto3", "cohere", "google-genai", "mistralai", "ollama"]


def requirements(page: Path) -> list[str]:
    """Return what the first line ``pip install`` of a page installs."""
    line = re.search(r"^pip install (.*)$", page.read_text("utf-8"), re.MULTILINE)
    if line is None:
        sys.exit(f"{page} does not say what to install")
    return shlex.split(line[1], comments=True)


def run(title: str, wheel: Path, python: str, wanted: list[str], *tests: str) -> bool:
    """Return True if tests pass whose programs run in a new environment."""
    print(f"-- {title}: {' '.join(wanted)}", flush=True)
    from_wheel = [re.sub(r"^(streamkit-llm(?:\[.*\])?)$", rf"\1 @ {wheel.as_uri()}", each) for each in wanted]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        there = f"{folder}/bin/python"
        subprocess.run([there, "-m", "pip", "install", "--quiet", *from_wheel], check=True)
        environment = {**os.environ, "STREAMKIT_PROGRAMS_PYTHON": there}
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main(wheel: Path, python: str) -> None:
    """Run all programs, and exit with the titles of the pages that failed."""
    cookbook = "tests/test_cookbook.py"
    failed = []
    if not run("README, pages", wheel, python, ["streamkit-llm[cli]"], "tests/test_readme.py", "-k", "the_code_runs"):
        failed.append("README, pages")
    for page in sorted(COOKBOOK.glob("*.md")):
        name = {"index": "double", "sdks": "sdks or bedrock"}.get(page.stem, page.stem)
        wanted = requirements(page)
        if not run(page.stem, wheel, python, [*wanted, *SDKS] if page.stem == "sdks" else wanted, cookbook, "-k", name):
            failed.append(page.stem)
    if failed:
        sys.exit(f"failed in an environment of their own: {', '.join(failed)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else sys.executable)
