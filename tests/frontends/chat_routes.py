"""The routes of the application for npm ``ai``."""

from __future__ import annotations

from starlette.routing import Route

routes: list[Route] = []
