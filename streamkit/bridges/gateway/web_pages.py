"""Requests that a web page of another site makes, to which a gateway without a key is open. Pure.

Without the headers of CORS a browser shows no response to such a page, and asks before it sends JSON. But it sends a
text or a form at once, so that any page could have a model asked at the user's cost; and a site whose name was made to
lead to this computer (DNS rebinding) counts as the gateway's own: https://nvd.nist.gov/vuln/detail/CVE-2024-28224.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

__all__ = ["is_from_another_site"]

#: The types that a browser sends without asking; "" is a body without a type.
#: https://fetch.spec.whatwg.org/#cors-safelisted-request-header
_SENT_AT_ONCE = ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")


def is_from_another_site(headers: Mapping[str, str]) -> bool:
    """Return whether a web page of another site has sent a request with a body, which it must not.

    Other programs send no ``Origin``; apps and extensions with a browser inside send one, and JSON.

    Args:
        headers: the request's headers, with names in lower case.
    """
    origin = headers.get("origin")
    if origin is None:
        return False
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    host = headers.get("host", "").lower()
    # The gateway serves no page, so none can be of its own. One behind a proxy has an address with https.
    return kind in _SENT_AT_ONCE or (origin.lower() == f"http://{host}" and _is_public_name(host))


def _is_public_name(host: str) -> bool:
    """Return whether a host, with or without a port, may be a name of the public DNS."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdecimal() else host).removesuffix(".")
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return "." in name and not name.endswith(".localhost")
    return False
