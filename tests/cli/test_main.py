from __future__ import annotations

import subprocess
import sys

import pytest

from streamkit.cli import main
from streamkit.values.distribution import install_command


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_names_the_commands(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    for command in ("demo", "normalize", "inspect", "report", "chat", "gateway", "tap"):
        assert command in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("command", ["demo", "normalize", "inspect", "report", "chat", "gateway", "tap"])
def test_each_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert "openai_chat" in text  # the providers that there are
    assert "``" not in text  # the docstring of a command's module is its help, for people


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("streamkit ")


def test_no_command_prints_the_help(capsys):
    assert main([]) == 0
    assert "\ncommands:\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "missing", ["rich", *(pytest.param(name, marks=pytest.mark.slow) for name in ("httpx", "uvicorn"))]
)
def test_without_the_extra_a_message_names_what_to_install(missing):
    done = run(f"import sys; sys.modules[{missing!r}] = None; from streamkit.cli import main; sys.exit(main(['demo']))")
    assert done.returncode == 2
    assert done.stderr == (
        f"streamkit demo needs {missing}, which is not installed: pip install 'streamkit-llm[cli]'\n"
    )


def test_the_gateway_names_its_own_extra():
    command = ["gateway", "--provider", "ollama", "--base-url", "http://127.0.0.1:9", "--port", "0"]
    done = run(f"import sys; sys.modules['aiohttp'] = None; from streamkit.cli import main; sys.exit(main({command}))")
    assert done.returncode == 2
    assert done.stderr == f"streamkit gateway needs aiohttp, which is not installed: {install_command('gateway')}\n"


def test_help_and_normalize_need_no_extra():
    blocked = "import sys; sys.modules.update(dict.fromkeys(['rich', 'httpx', 'uvicorn', 'starlette']))"
    done = run(f"{blocked}; from streamkit.cli import main; sys.exit(main(['normalize', 'nowhere']))")
    assert (done.returncode, done.stderr) == (2, "nowhere: the file cannot be read: No such file or directory\n")


def test_the_command_line_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "streamkit.cli", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
