"""A cluster on this machine: its folder, its processes, what a terminal shows of it."""
