"""The simulator: the same machines in a world of virtual time, where every run repeats exactly."""
