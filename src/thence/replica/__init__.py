"""One node of the middleware."""
