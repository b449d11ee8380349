"""Bridges to other protocols and libraries, a module or package each, imported by name. Each needs its extra."""
