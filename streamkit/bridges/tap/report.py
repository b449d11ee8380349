"""The page as one self-contained HTML file: style, script and data inside, nothing loaded.

The live page is the same file without data. What models and servers sent is data and never markup: the script sets it
as text, and here each ``<`` of the JSON is escaped, so that no ``</script>`` in it ends the element. The content
security policy allows this one script and this one style by their hashes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

__all__ = ["build_report", "live_page", "page_policy"]

_SCRIPTS = ("response.js", "detail.js", "page.js")


def live_page() -> str:
    """Return the page that reads exchanges from the server that it comes from."""
    return _page("null", "connect-src 'self'")


def build_report(exchanges: Sequence[bytes]) -> str:
    """Return the page with these exchanges in it.

    Args:
        exchanges: what ``ObservedExchange.detail`` returned for each.
    """
    data = b'{"exchanges":[' + b",".join(exchanges) + b"]}"
    return _page(data.decode(), "connect-src 'none'")


def page_policy(connections: str = "connect-src 'self'") -> str:
    """Return the content security policy of the page.

    Args:
        connections: the directive for connections.
    """
    style, script = _assets()
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; {connections};"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )


def _page(data: str, connections: str) -> str:
    style, script = _assets()
    # < and > cannot end the element or begin a comment; the separators are line ends in older JavaScript.
    for character in "<>\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    parts = {"policy": page_policy(connections), "style": style, "script": script, "data": data}
    before, *rest = _read("page.html").split("{{")
    page = [before]
    for part in rest:  # in one pass, since data may contain the name of a part
        name, _, after = part.partition("}}")
        page += [parts[name], after]
    return "".join(page)


@cache
def _assets() -> tuple[str, str]:
    """Return the style and the script."""
    return _read("page.css"), '"use strict";\n' + "\n".join(map(_read, _SCRIPTS))


def _read(name: str) -> str:
    return (files("streamkit.bridges.tap") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
