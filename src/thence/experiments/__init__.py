"""The documents' experiments as named, parameterised sweeps."""
