"""Membership: the partial view of an overlay, the view of a dynamic group."""
