"""The routes of the application for plain server-sent events."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
