"""The parts of `thence demo`: what happens to a real cluster, what is claimed of it, and the page of it."""
