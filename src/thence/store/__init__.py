"""The store: a key space of replicated data types, its commands, and the Redis protocol as bytes."""
