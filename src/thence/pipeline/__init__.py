"""The Spark pipeline: traces of any size in, verdicts out.

The only room that imports pyspark, pyarrow and numba; a live node never comes here. A trace takes this way:

`files` (which files, cut into splits) → `parquet`/`text` (a split's rows, checked) → `pack` (rows of one
run, as compact binary) → shuffle → `assemble` (one run's rows in order, messages numbered) → `schedule`,
`columns`, `kernels` (happens-before and the verdicts) → `judge` (findings) → `report`.
"""
