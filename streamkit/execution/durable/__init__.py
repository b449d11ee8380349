"""Runs that survive a restart: stored entries, their recorder, their replay, the state between rounds."""
