"""How a message travels from its sender to all members."""
