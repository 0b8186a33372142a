"""The durable operation log: what a node delivered, in the order in which it did, across crashes."""
