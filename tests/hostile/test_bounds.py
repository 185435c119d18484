"""Requests beyond all measure are refused in a sentence, or end with their time limit."""

import time

import numpy as np
import pytest

import fastccpd
from fastccpd import Status, experiments, fuse, fuse_many
from fastccpd.cli import main
from fastccpd.testing import small_case
from fastccpd.tiles import fuse_tiles

ITERATIVE = ("nn-ccpd-nls", "uc-ccpd-nls", "nn-ccpd-auto", "auto", "stereo", "cbtd-apg")


def scene(I, J, K, msi_bands=3):
    return small_case((I, J, K), (4, 4), msi_bands)


@pytest.mark.parametrize("run", [fuse, lambda *case, **given: list(fuse_many([case], **given))], ids=["one", "many"])
def test_a_billion_starts_are_refused_before_any_work(run):
    began = time.perf_counter()
    with pytest.raises(ValueError, match=r"^starts: got 1000000000; .* at most 1000 is needed"):
        run(*small_case(), method="nn-ccpd-nls", starts=10**9, time_limit=0.1)
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize(
    "run",
    [
        lambda case, count: fuse_many([case], workers=count),
        lambda case, count: fuse_tiles(*case, tile=8, workers=count),
        lambda case, count: experiments.snr("synthetic", workers=count),
    ],
    ids=["many", "tiles", "experiment"],
)
def test_processes_by_the_million_are_refused_before_any_work(run):
    with pytest.raises(ValueError, match=r"^workers: got 1000000; .* at most \d+ is needed"):
        run(small_case(), 10**6)


def test_jobs_by_the_million_are_refused_under_their_own_name(tmp_path, capsys):
    (tmp_path / "pairs.csv").write_text("hsi,msi\na.npy,b.npy\n")
    assert main(["batch", str(tmp_path / "pairs.csv"), "-o", str(tmp_path / "{name}.npy"), "--jobs", "1000000"]) == 2
    assert capsys.readouterr().err.startswith("fastccpd: --jobs: got 1000000; ")


def test_many_starts_end_with_the_time_limit():
    fuse(*small_case(), method="nn-ccpd-nls", rank=2, max_iter=1)
    began = time.perf_counter()
    result = fuse(*small_case(), method="nn-ccpd-nls", rank=3, starts=1000, time_limit=0.2)
    assert time.perf_counter() - began < 1.5
    assert 1 <= len(result.start_costs) < 1000


def test_starts_are_the_generator_itself_and_then_those_that_it_spawns():
    # The results of many starts, and of calls after them, do not depend on how the generators are made.
    case, options = small_case(noise=0.05), {"method": "nn-ccpd-nls", "rank": 2, "max_iter": 3}
    many = fuse(*case, **options, starts=3, rng=np.random.default_rng(7))
    parent = np.random.default_rng(7)
    alone = [
        fastccpd.methods.NNCCPDNLS(rank=2, max_iter=3).solve(fastccpd.Problem(*case), rng=child).cost
        for child in (np.random.default_rng(7), *parent.spawn(3)[1:])
    ]
    assert many.start_costs == tuple(alone)
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    fuse(*case, **options, starts=3, rng=one)
    other.spawn(3)
    assert one.spawn(1)[0].random() == other.spawn(1)[0].random()
    assert one.random() == np.random.default_rng(7).random()


def test_a_seed_is_that_of_the_methods_own_solve_and_a_further_call_with_a_generator_has_the_next_child():
    case, options = small_case(noise=0.05), {"rank": 2, "max_iter": 3}
    method, problem = fastccpd.methods.NNCCPDNLS(**options), fastccpd.Problem(*case)
    alone = method.solve(problem, rng=np.random.default_rng(7)).cost
    assert fuse(*case, method="nn-ccpd-nls", rng=7, **options).cost == alone
    generator, (_, second) = np.random.default_rng(7), np.random.default_rng(7).spawn(2)
    assert fuse(*case, method=method, rng=generator).cost == alone
    assert fuse(*case, method=method, rng=generator).cost == method.solve(problem, rng=second).cost != alone


@pytest.mark.parametrize("method", ITERATIVE)
def test_a_rank_above_that_of_any_such_scene_is_refused(method):
    with pytest.raises(ValueError, match=r"^rank: got 1000; at most 192 is needed, .* 16×16×12 "):
        fuse(*scene(16, 16, 12), method=method, rank=1000)


@pytest.mark.parametrize("method", ITERATIVE)
def test_a_methods_own_rank_is_taken_whatever_the_scene(method):
    result = fuse(*scene(4, 4, 3, 2), method=method, **({"max_iter": 2} if method != "auto" else {}))
    assert result.status is not Status.NOT_FINITE


def test_the_largest_rank_a_scene_can_have_is_taken():
    fuse(*scene(16, 16, 12), method="nn-ccpd-nls", rank=192, max_iter=1)
