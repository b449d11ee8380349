"""The grammars of tool-call markup that models leak into text, one family a module."""
