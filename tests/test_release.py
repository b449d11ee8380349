"""What a release needs: the workflow names what exists, and a package index shows links that work."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib import import_module
from typing import Any
from zipfile import ZipFile

import pytest
from shared_data import ROOT
from test_exports import PUBLIC_MODULES

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
WHEELS = PYPROJECT["tool"]["cibuildwheel"]
VERSIONS = sorted(re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"])))

needs_workflow = pytest.mark.skipif(not WORKFLOW.exists(), reason="a source distribution does not contain .github")


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    return import_module("yaml").safe_load(WORKFLOW.read_text("utf-8"))


def steps(workflow: dict[str, Any], *jobs: str) -> Iterator[dict[str, Any]]:
    for name in jobs or workflow["jobs"]:
        yield from workflow["jobs"][name]["steps"]


def commands(workflow: dict[str, Any], *jobs: str) -> list[str]:
    return [step["run"] for step in steps(workflow, *jobs) if "run" in step]


# ---------------------------------------------------------------- the workflow


@needs_workflow
def test_nothing_is_published_before_everything_has_passed(workflow: dict[str, Any]) -> None:
    jobs = workflow["jobs"]
    publishing = {name for name in jobs if name.startswith("publish")}
    assert set(jobs["publish"]["needs"]) == jobs.keys() - publishing
    assert jobs["publish-site"]["needs"] == "publish"
    assert {jobs[name]["if"] for name in publishing} == {"github.ref_type == 'tag'"}
    assert workflow[True] == {"push": {"tags": ["v*"]}, "workflow_dispatch": None}  # YAML 1.1 reads "on" as true
    assert not [each for each in steps(workflow) if "continue-on-error" in each or "||" in each.get("run", "")]


@needs_workflow
def test_the_publishing_is_trusted_and_has_no_secret(workflow: dict[str, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    allowed = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert allowed == {
        "publish": {"id-token": "write"},
        "publish-site": {"id-token": "write", "pages": "write"},
    }
    assert workflow["jobs"]["publish"]["environment"] == "pypi"
    assert "secrets." not in WORKFLOW.read_text("utf-8")
    assert not commands(workflow, "publish", "publish-site")


@needs_workflow
def test_every_file_and_extra_that_the_workflow_names_exists(workflow: dict[str, Any]) -> None:
    words = [word for command in commands(workflow) for word in shlex.split(command)]
    files = {word for word in words if re.fullmatch(r"(?:\.ci|docs|tests)/[\w./]+", word)}
    assert files == {".ci/run", ".ci/distributions", "docs/build.py"}
    assert not [name for name in files if not (ROOT / name).is_file()]
    extras = set(re.findall(r"\[(\w+)\]", " ".join(words)))
    assert extras == {"suite", "docs"}
    assert extras <= set(PROJECT["optional-dependencies"])
    assert [ROOT / name for name in (".ci/run", ".ci/distributions") if not (ROOT / name).stat().st_mode & 0o100] == []


@needs_workflow
def test_what_is_downloaded_was_uploaded(workflow: dict[str, Any]) -> None:
    artifacts = [
        (step["uses"].partition("@")[0].rpartition("/")[2], step["with"])
        for step in steps(workflow)
        if "artifact" in step.get("uses", "")
    ]
    uploaded = [each["name"] for kind, each in artifacts if kind == "upload-artifact"]
    assert uploaded == ["distributions", "compiled-${{ matrix.os }}"]
    wanted = {each.get("name") or each["pattern"] for kind, each in artifacts if kind == "download-artifact"}
    assert wanted == {"distributions", "compiled-*"}
    assert workflow["jobs"]["pure-wheel"]["needs"] == "distributions"


@needs_workflow
def test_the_suite_runs_on_the_pure_wheel_of_each_python_and_system(workflow: dict[str, Any]) -> None:
    matrix = workflow["jobs"]["pure-wheel"]["strategy"]["matrix"]
    assert matrix["python"] == VERSIONS
    assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    suite = list(steps(workflow, "pure-wheel"))[-1]
    readme = (ROOT / "README.md").read_text("utf-8")
    assert suite["run"].removeprefix("python ") in readme
    assert suite["env"] == {"PYTHONSAFEPATH": "1"}, "the checkout's modules would be tested"


@needs_workflow
def test_every_action_has_a_version(workflow: dict[str, Any]) -> None:
    used = {step["uses"] for step in steps(workflow) if "uses" in step}
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@(?:v\d+|release/v1)", each)] == []
    tools = re.findall(r"pip install (\w+)(\S*)", "\n".join(commands(workflow, "compiled-wheels")))
    assert [name for name, version in tools if not version.startswith("==")] == []
    script = (ROOT / ".ci" / "distributions").read_text("utf-8")
    assert re.search(r"install --quiet build==[\d.]+ twine==[\d.]+\n", script)
    assert 'twine" check --strict' in script


# ---------------------------------------------------------------- the compiled wheels


def test_wheels_are_compiled_for_each_python_and_tested() -> None:
    assert [f"3.{selector[3:5]}" for selector in WHEELS["build"]] == VERSIONS
    hook = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    enabled = [f"HATCH_BUILD_HOOK_ENABLE_{name.upper()}" for name, options in hook.items() if "include" in options]
    assert enabled == list(WHEELS["environment"])
    assert set(WHEELS["test-extras"]) <= set(PROJECT["optional-dependencies"])
    check, suite = WHEELS["test-command"].split(" && ")
    assert "not sse.__file__.endswith('.py')" in check
    assert "streamkit/framing/sse.py" in hook["mypyc"]["include"]
    assert suite == "python -m pytest -q -rs -n auto"
    assert WHEELS["test-environment"] == {"PYTHONSAFEPATH": "1"}


@needs_workflow
def test_the_suite_of_a_compiled_wheel_has_every_file_of_the_checkout() -> None:
    """The tests read the sources, the documents and the scripts."""
    listed = set(WHEELS["test-sources"])
    assert [name for name in listed if not (ROOT / name).exists()] == []
    if (git := shutil.which("git")) is None:
        pytest.skip("git is not installed")
    files = subprocess.run([git, "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if files.returncode != 0:
        pytest.skip("not a checkout of git")
    assert {name.partition("/")[0] for name in files.stdout.split()} - listed == {".gitignore"}


# ---------------------------------------------------------------- what is promised


def test_the_public_modules_are_the_same_everywhere() -> None:
    page = (ROOT / "docs" / "versions.md").read_text("utf-8").split("## What is public")[1].split("\n## ")[0]
    promised = set(re.findall(r"`(streamkit(?:\.\w+)+)`", page)) | {"streamkit"}
    assert promised >= set(PUBLIC_MODULES)
    bridges = {name.rpartition(".")[2] for name in promised - set(PUBLIC_MODULES)}
    assert [name for name in bridges if not (ROOT / "streamkit" / "bridges" / f"{name}.py").is_file()] == []
    build = (ROOT / "docs" / "build.py").read_text("utf-8").split("\nMODULES = (")[1].split("\n)")[0]
    assert set(re.findall(r'"(streamkit[\w.]*)"', build)) == promised - {"streamkit.events"}  # there with streamkit


# ---------------------------------------------------------------- what a package index shows


def test_the_changelog_has_a_section_of_this_version() -> None:
    assert f"\n## {PROJECT['version']}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_project_has_the_usual_addresses() -> None:
    urls = PROJECT["urls"]
    assert urls.keys() == {"Documentation", "Repository", "Issues", "Changelog"}
    assert {
        url for name, url in urls.items() if name != "Documentation" and not url.startswith(urls["Repository"])
    } == set()
    assert urls["Changelog"].rpartition("/blob/main/")[2] == "CHANGELOG.md"


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """Return the metadata of a wheel that is built here."""
    for module in ("hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(module, reason="the build backend is not installed (.ci/requirements.in)")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = folder.iterdir()
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@pytest.mark.slow
def test_every_link_of_the_description_is_absolute_and_leads_to_a_file(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    links = re.findall(r"\]\(([^)]+)\)", text)
    base = f"{PROJECT['urls']['Repository']}/blob/v{PROJECT['version']}/"
    assert len(links) > 20
    for link in links:
        assert link.startswith(base)
        assert (ROOT / link.removeprefix(base).partition("#")[0]).is_file(), link


@pytest.mark.slow
def test_the_description_installs_what_is_released(metadata: Message) -> None:
    text = str(metadata.get_payload())
    assert "pip install -q 'streamkit-llm[cli]' && .venv/bin/streamkit demo" in text
    assert "(`pip install 'streamkit-llm[http]'`)" in text
    assert "-e '." not in text
    assert "nothing is released" not in text
    assert "\n## Twelve lines with a real key\n" in text
