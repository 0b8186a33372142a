"""The laboratory: benchmarks, trials on real processes, storms by the thousand, the tour."""
