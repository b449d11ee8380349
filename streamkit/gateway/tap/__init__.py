"""A tap: the traffic of a gateway, or of a provider's client, shown while it streams.

1. `observed_exchange`: one request and its response as they grow; `display_text`: its texts. Pure.
2. `relay`: copies that a thread passes to a target; `observer`: the copies of a gateway's traffic.
3. `exchange_list`: the newest exchanges, for the page; `exchange_folder`: each exchange as files.
4. `page`: the page as an ASGI application, and as one file for reports.
5. `pass_through`: an ASGI application that passes requests and responses on unchanged, and copies them.

Nothing in this package delays or fails a response: ``Relay`` takes a copy without waiting, drops the oldest parts when
its target is slow, and counts them. Keys are masked in everything that is shown or written.
"""

from __future__ import annotations

from streamkit.gateway.tap.exchange_folder import ExchangeFolder
from streamkit.gateway.tap.exchange_list import ExchangeList
from streamkit.gateway.tap.observer import ExchangeObserver

__all__ = ["ExchangeFolder", "ExchangeList", "ExchangeObserver"]
