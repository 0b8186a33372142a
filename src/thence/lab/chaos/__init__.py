"""`thence chaos`: real processes, everything that may go wrong with them, and a verdict."""
