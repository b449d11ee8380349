"""History as a provider's messages and back: the entry points, and the bases of every provider's renderer."""
