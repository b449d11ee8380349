"""Bridges to other protocols and libraries, one in each module. Each is imported by name and needs its extra."""
