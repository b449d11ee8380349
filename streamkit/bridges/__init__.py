"""Bridges to other protocols and libraries, one a file; each is imported by name, and brings its extra with it."""
