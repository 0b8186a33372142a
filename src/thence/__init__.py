"""thence: causal delivery for Python, a replicated store on top, and a laboratory around both."""

__version__ = "0.1.0"
