"""One grammar a module: the tool-call markup of some model families, parsed from the lexer's tokens."""
