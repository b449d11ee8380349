"""Calls and opaque state of an upstream in the form that a client of another wire sends back."""
