"""Who is in: the partial view of an overlay, the view of a dynamic group."""
