"""The rules by which providers refuse requests with status 400, one module a wire, and the check that applies them."""
