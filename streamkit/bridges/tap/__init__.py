"""A tap: what passes a gateway or a provider's own address, shown while it streams.

1. `observed_exchange`: one request and its response as they grow; `frame_pieces`, `display_text`: parts of it. Pure.
2. `relay`: copies taken at once and passed on in a thread of their own; `observer`: the copies of a gateway's traffic.
3. `exchange_list`: the newest exchanges, for the page; `exchange_folder`: each exchange as files.
4. `page`: the page as an ASGI application; `report`: the same page as one file.
5. `pass_through`: an ASGI application that passes requests and responses on unchanged, and copies them.

Nothing here slows or fails a response: ``Relay`` takes a copy without waiting, drops the oldest when its targets are
slow, and counts what it dropped. Keys are masked in everything that is shown or written.
"""

from __future__ import annotations

from streamkit.bridges.tap.exchange_folder import ExchangeFolder
from streamkit.bridges.tap.exchange_list import ExchangeList
from streamkit.bridges.tap.observer import ExchangeObserver

__all__ = ["ExchangeFolder", "ExchangeList", "ExchangeObserver"]
