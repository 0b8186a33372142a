"""Who judges what: small runs share a task, large ones are cut, memory is bounded."""

from thence.pipeline.plan import EVENTS_PER_RUN, MATRIX_BYTES_MAX, Share, Size, blocks_of, buckets_for, plan


def test_a_small_trace_is_one_task() -> None:
    assert plan([Size("", "", 1000, 10, 5)], parallelism=2) == [Share("", "", 0, 1, 0)]


def test_a_large_run_is_cut_for_every_core() -> None:
    shares = plan([Size("", "", 10**7, 60_000, 170)], parallelism=2)
    assert [(share.block, share.blocks, share.task) for share in shares] == [(0, 2, 0), (1, 2, 1)]


def test_few_columns_are_not_cut() -> None:
    assert blocks_of(Size("", "", 10**8, 10**6, 5), parallelism=8) == 1


def test_the_matrix_of_a_block_fits_into_memory() -> None:
    size = Size("", "", 10**8, 10**7, 1000)
    assert size.sends * size.columns * 4 / blocks_of(size, parallelism=2) <= MATRIX_BYTES_MAX


def test_what_each_of_many_nodes_knows_fits_into_memory_too() -> None:
    """Ten thousand nodes that send ten messages each: 4.0 GB of pasts, and 1.2 GB of what nodes know."""
    size = Size("", "", 3 * 10**5, 10**5, 10**4)
    assert (size.sends + 3 * size.columns) * size.columns * 4 / blocks_of(size, 1) <= MATRIX_BYTES_MAX
    assert blocks_of(size, 1) == 5


def test_many_tiny_runs_fill_the_cores_evenly() -> None:
    sizes = [Size(f"r{n}", "", 20, 3, 3) for n in range(1000)]
    shares = plan(sizes, parallelism=2)
    assert sorted(share.run for share in shares) == sorted(size.run for size in sizes)
    by_task = [sum(share.task == task for share in shares) for task in (0, 1)]
    assert by_task == [500, 500]
    assert 1000 * EVENTS_PER_RUN > 1_000_000


def test_a_number_of_blocks_can_be_forced() -> None:
    shares = plan([Size("", "", 10, 2, 3)], parallelism=2, blocks=3)
    assert [share.block for share in shares] == [0, 1, 2]


def test_no_runs_no_shares() -> None:
    assert plan([], parallelism=2) == []


def test_runs_that_fit_are_cut_into_blocks_on_few_cores_and_into_shards_on_many() -> None:
    size = Size("", "", 10**7, 60_000, 170)
    few = plan([size], 2, buckets=buckets_for(size.events, 2))
    many = plan([size], 8, buckets=buckets_for(size.events, 8))
    assert {(share.shards, share.blocks) for share in few} == {(1, 2)}
    assert {(share.shards, share.blocks) for share in many} == {(8, 1)}
    large = size._replace(events=10**8)
    assert {share.shards for share in plan([large], 2, buckets=buckets_for(large.events, 2))} == {3}
