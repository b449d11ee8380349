"""Make the report of docs/conformance_report.md: ``streamkit conformance`` for each client that has an adapter here.

    python tests/conformance/clients.py [--peers PYTHON]

PYTHON is an interpreter with the extra ``peers``; ``tests/vercel`` needs ``npm install``. A client that is not
installed is left out, with a line that says so. The reports with every case are written to ``build/conformance``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from streamkit import __version__
from streamkit.cli.conformance import MISTAKES

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TARGET = ROOT / "docs" / "conformance_report.md"
#: Of the Responses API only recorded streams: most cases leave out what a client reads at the end of a response.
CHAT, RESPONSES = ("--wire", "openai_chat"), ("--provider", "openai_responses", "--case", "recorded-*")
ANTHROPIC, GEMINI = ("--provider", "anthropic"), ("--provider", "gemini")
#: The distribution, the adapter, and the wires that it speaks.
CLIENTS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    ("openai", "openai_sdk.py", [CHAT, RESPONSES]),
    ("anthropic", "anthropic_sdk.py", [ANTHROPIC]),
    ("google-genai", "google_genai.py", [GEMINI]),
    ("ai", "conformance.mjs", [CHAT]),
    ("langchain-core", "langchain_models.py", [CHAT, RESPONSES, ANTHROPIC]),
    ("litellm", "litellm_completion.py", [CHAT, ANTHROPIC, GEMINI]),
    ("pydantic-ai-slim", "pydantic_ai_agent.py", [CHAT, RESPONSES, ANTHROPIC, GEMINI]),
]
HEAD = """\
# What clients get wrong

At the end of this page you know which streams the current clients misread. `python tests/conformance/clients.py` made
it with streamkit {version}; [conformance.md](conformance.md) describes the cases, what each column means and how to run
the suite with another client. A number is the number of cases with such a mistake.

- Most cases are irregular streams that a server was observed to send, often against its own specification. A client of
  one vendor need not read those of the others. A case in which the client asks the model again is `failed`, too.
- `failed` is an exception, which is safe, and often the best that a client can do. The other columns are silent.
- Of the Responses API only the recorded streams are run: most of its cases leave out what a real response has at its
  end, which clients read.

"""


def main() -> None:
    """Run the clients and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=sys.executable)
    options = parser.parse_args()
    folder = ROOT / "build" / "conformance"
    folder.mkdir(parents=True, exist_ok=True)
    rows, details = [], []
    for name, adapter, wires in CLIENTS:
        found = find_command(name, adapter, [sys.executable, options.peers])
        if found is None:
            sys.stderr.write(f"{name} is not installed: left out\n")
            continue
        version, command = found
        for wire in wires:
            output = folder / f"{name}-{wire[1]}.json"
            sys.stderr.write(f"{name} {wire[1]}\n")
            arguments = [sys.executable, "-m", "streamkit", "conformance", *wire, "-o", str(output), "--", *command]
            if subprocess.run(arguments, stdout=subprocess.DEVNULL).returncode > 1:
                raise SystemExit(f"{name} cannot run")
            cases = json.loads(output.read_text())["cases"]
            counts = Counter(kind for case in cases for kind in {each["kind"] for each in case["mistakes"]})
            passed = sum(not case["mistakes"] for case in cases)
            shown = [name, version, wire[1], len(cases), passed, *(counts[kind] or "" for kind in MISTAKES)]
            rows.append("| " + " | ".join(map(str, shown)) + " |")
            silent = [f"`{case['case']}` ({kinds})" for case in cases if (kinds := silent_kinds(case))]
            if silent:
                details.append(f"- **{name}**, {wire[1]}: {', '.join(silent)}.")
    titles = ["client", "version", "wire", "cases", "passed", *MISTAKES]
    table = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles), *rows]
    silent_part = ["", "## The silent mistakes", "", *details]
    TARGET.write_text(HEAD.format(version=__version__) + "\n".join([*table, *silent_part]) + "\n")


def silent_kinds(case: dict[str, Any]) -> str:
    """Return the kinds of mistakes in a case of which the client's program learns nothing."""
    return ", ".join(dict.fromkeys(each["kind"] for each in case["mistakes"] if each["kind"] != "failed"))


def find_command(name: str, adapter: str, pythons: list[str]) -> tuple[str, list[str]] | None:
    """Return the version of a client and the command of its adapter; None if it is not installed."""
    if adapter.endswith(".mjs"):
        package = ROOT / "tests" / "vercel" / "node_modules" / name / "package.json"
        program = ["node", str(ROOT / "tests" / "vercel" / adapter)]
        return (json.loads(package.read_text())["version"], program) if package.exists() else None
    for python in pythons:
        code = f"import importlib.metadata as m; print(m.version({name!r}))"
        result = subprocess.run([python, "-c", code], capture_output=True, text=True)
        if result.returncode == 0:
            return result.stdout.strip(), [python, str(HERE / "adapters" / adapter)]
    return None


if __name__ == "__main__":
    main()
