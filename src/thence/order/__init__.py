"""Ordering engines: when may a message be delivered."""
