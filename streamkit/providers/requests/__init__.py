"""What the readers and writers of requests share: settings, tools, strict modes, cache marks."""
