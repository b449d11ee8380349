"""One round: the calls of a turn to exactly one result each, and to a `ThreadUpdate`."""
