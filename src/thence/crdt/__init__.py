"""Data types of the store: what operations leave behind, as a function of the operations and their order."""
