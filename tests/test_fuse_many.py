"""`fuse_many` as a user meets it: the results of `fuse`, in order, from processes that do not outlive it."""

import itertools

import numpy as np
import pytest
from scenery import small_case

from fastccpd import fuse, fuse_many, workers

QUICK = {"rank": 3, "max_iter": 5}


@pytest.fixture(scope="module")
def pairs():
    return [small_case(noise=0.02, seed=seed)[1:3] for seed in range(5)]


@pytest.fixture(scope="module")
def degradation():
    return small_case()[3]


@pytest.fixture
def started(monkeypatch):
    """The processes that are started."""
    processes, start = [], workers._start

    def record(function):
        processes.append(start(function))
        return processes[-1]

    monkeypatch.setattr(workers, "_start", record)
    return processes


def assert_same(results, expected):
    for result, other in zip(results, expected, strict=True):
        assert result.sri.tobytes() == other.sri.tobytes()
        assert result.sri.dtype == other.sri.dtype
        assert (result.status, result.cost, result.n_iter) == (other.status, other.cost, other.n_iter)
        assert (result.options, result.seed, result.start_costs) == (other.options, other.seed, other.start_costs)


def test_results_are_those_of_fuse_in_the_order_of_the_pairs(pairs, degradation, started):
    calls = []
    results = fuse_many(pairs, degradation, workers=2, progress=lambda *call: calls.append(call), starts=2, **QUICK)
    assert_same(results, [fuse(*pair, degradation, starts=2, **QUICK) for pair in pairs])
    assert calls == [(n, 5) for n in range(1, 6)]
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_a_generator_goes_on_from_pair_to_pair_as_in_calls_of_fuse(pairs, degradation):
    one, other = np.random.default_rng(7), np.random.default_rng(7)
    results = fuse_many(pairs[:3], degradation, workers=2, rng=one, **QUICK)
    assert_same(results, [fuse(*pair, degradation, rng=other, **QUICK) for pair in pairs[:3]])


def test_each_pair_may_bring_its_degradation_and_its_dtype(pairs, degradation):
    hsi, msi = (image.astype(np.float32) for image in pairs[0])
    given = [(hsi, msi, degradation), (*pairs[1], degradation)]
    results = fuse_many(given, workers=1, method="scott", rank=(3, 3, 3))
    assert_same(results, [fuse(*triple, method="scott", rank=(3, 3, 3)) for triple in given])


def test_an_endless_iterable_is_taken_a_few_pairs_ahead(pairs, degradation, started):
    taken = []

    def endless():
        for n in itertools.count():
            taken.append(n)
            yield pairs[n % 5]

    results = fuse_many(endless(), degradation, workers=2, **QUICK)
    assert not taken
    assert not started
    for n in range(4):
        next(results)
        assert len(taken) <= n + 4
    results.close()
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_no_pairs_give_no_results(degradation, started):
    assert list(fuse_many([], degradation)) == []
    assert not started


def test_a_bad_pair_is_named_after_the_results_before_it(pairs, degradation, started):
    hsi, msi = pairs[2]
    results = fuse_many([*pairs[:2], (hsi, msi[:, :-1]), pairs[3]], degradation, workers=2, **QUICK)
    assert len([next(results), next(results)]) == 2
    with pytest.raises(ValueError, match=r"pairs\[2\]: msi: 19 columns"):
        next(results)
    assert all(process.poll() is not None for process in started)


@pytest.mark.parametrize("bad", ["pair", (1, 2, 3, 4), None])
def test_what_is_no_pair_is_named(bad, pairs, degradation):
    with pytest.raises(TypeError, match=r"pairs\[0\]: got .*; \(hsi, msi\) or \(hsi, msi, degradation\) is needed"):
        list(fuse_many([bad], degradation))


def test_a_missing_degradation_is_named(pairs):
    with pytest.raises(TypeError, match=r"pairs\[0\]: degradation: got NoneType"):
        list(fuse_many(pairs))


def test_what_a_worker_refuses_names_the_pair_too(pairs, degradation):
    with pytest.raises(ValueError, match=r"pairs\[0\]: init: got shapes"):
        list(fuse_many(pairs, degradation, method="nn-ccpd-nls", init=[np.ones((2, 3))] * 3, workers=1, **QUICK))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"callback": print}, "callback: "),
        ({"threads": 2}, "threads: "),
        ({"workers": 0}, "workers: "),
        ({"method": "no-such"}, "no-such"),
        ({"starts": 0}, "starts: "),
        ({"rng": "dice"}, "rng: "),
        ({"time_limit": -1}, "time_limit: "),
    ],
)
def test_wrong_options_are_refused_before_any_pair_is_taken(wrong, message, degradation):
    def never():
        raise AssertionError("a pair was taken")
        yield

    with pytest.raises((TypeError, ValueError), match=message):
        fuse_many(never(), degradation, **wrong)


def test_a_worker_that_is_killed_is_reported_with_its_pair(pairs, degradation, started):
    results = fuse_many(itertools.cycle(pairs), degradation, workers=1, **QUICK)
    next(results)
    started[0].kill()
    with pytest.raises(ChildProcessError, match=r"pairs\[\d\]: worker: it ended \(exit code -9\)"):
        list(results)


def test_an_interrupt_ends_the_workers(pairs, degradation, started):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(fuse_many(pairs, degradation, workers=2, progress=interrupt, **QUICK))
    assert all(process.poll() is not None for process in started)
