"""A run of several rounds: requests, retries, budget, hooks, until an end."""
