"""Bridges to other protocols and libraries, a module each, imported by name. Each needs its extra."""
