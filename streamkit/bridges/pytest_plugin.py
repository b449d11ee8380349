"""The plugin for pytest: servers that play providers in a test, and recordings of real responses.

pytest loads it by itself where the package is installed, or with ``-p streamkit.bridges.pytest_plugin``. It must import
nothing of the package but on use, because every run of pytest in that environment imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from streamkit.testing import Recorded, Request, Server, Status
    from streamkit.testing.script import ReplyFactory, Script

__all__ = ["pytest_addoption", "streamkit_recording", "streamkit_server"]

_OPTION = "--streamkit-record"
_PATIENCE = 600.0  # seconds for a response


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--streamkit-record``."""
    parser.getgroup("streamkit").addoption(
        _OPTION,
        action="store_true",
        help="ask the providers, with the keys of the environment, and write the files of streamkit_recording",
    )


@pytest.fixture
def streamkit_server() -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server, with the arguments of ``streamkit.testing.serve``.

    ::

        def test_weather(streamkit_server):
            server = streamkit_server([Reply(Call("get_weather", {"city": "Oslo"})), Reply("4 degrees.")])
            assert ask_my_agent(server.base_url("anthropic")) == "4 degrees."

    The servers end with the test, which fails if a request had not what an ``Expect`` of a script wants.
    """
    from streamkit.testing import serve

    with ExitStack() as servers:

        def start(script: Script, **options: Any) -> Server:
            return servers.enter_context(serve(script, **options))

        yield start


@pytest.fixture
def streamkit_recording(request: pytest.FixtureRequest) -> Callable[..., Recorded | ReplyFactory]:
    """Return a function that returns a recorded response as a turn of a script, by a path beside the test's file.

    ::

        server = streamkit_server([streamkit_recording("recordings/weather.sse")])

    With ``--streamkit-record`` the request goes to the provider whose base URL it was sent to, and the response is
    written to the file, without secrets of known forms, before the client gets it. That needs the extra ``http`` and
    the provider's key in its usual environment variable. The function's ``provider=`` is needed where the first bytes
    do not show the wire, ``base_url=`` to record another server than the provider's own.
    """

    def find(name: str | Path, *, provider: str | None = None, base_url: str | None = None) -> Recorded | ReplyFactory:
        from streamkit.testing import Recorded

        path = request.path.parent / name
        if request.config.getoption(_OPTION):
            return partial(_record, path, base_url)
        if not path.exists():
            pytest.fail(f"there is no recording {path}: make it with pytest {_OPTION} and the provider's key")
        return Recorded(path, provider=provider)

    return find


async def _record(path: Path, base_url: str | None, sent: Request) -> Recorded | Status:
    """Send a request to its provider, write the response to a file, and return it; or the provider's refusal."""
    from streamkit import providers
    from streamkit.bridges.http import base_address, find_key, open_http, request_headers
    from streamkit.providers.writing.encoding import encode_json
    from streamkit.reading.stream_file import StreamFile
    from streamkit.testing import Recorded, Status

    target = providers.get(sent.provider or "")
    endpoint = target.traits.endpoint
    # Of SDKs whose base URL has a path, a server's path may have another one; the model is in the body then.
    asked = endpoint.path if endpoint.sdk_base_path else "/" + sent.path.lstrip("/").partition("/")[2]
    features = {name: sent.headers[name] for name in endpoint.feature_headers if name in sent.headers}
    headers = {"content-type": "application/json", **request_headers(endpoint, find_key(endpoint)), **features}
    async with open_http(timeout=_PATIENCE) as client:
        response = await client.post(
            base_address(endpoint, base_url) + asked,
            params={name: value for name, value in sent.query.items() if name != "key"},
            headers=headers,
            content=encode_json(sent.json),
        )
    if response.status_code >= 400:
        return Status(response.status_code, f"{target.name} refused the recording: {response.text}", retry=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = StreamFile(path)
    file.write(response.content)
    file.close()
    return Recorded(path, provider=target.name)
