"""The event trace: what nodes write down about what they did."""
