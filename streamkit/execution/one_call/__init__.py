"""One call of a tool: its arguments validated, approved, run in a task or a thread, within its time limit."""
