"""`fuse` as a user meets it."""

import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import numba
import numpy as np
import pytest
from fastccpd.kernels.jit import sharing_all_work
from scenery import band_means, blur, low_rank_scene, observe, rsnr, small_case

import fastccpd
from fastccpd import Status, fuse
from fastccpd.methods import NNCCPDNLS, UCCCPDNLS
from fastccpd.solver import coupled_cpd

METHODS = pytest.mark.parametrize("method", ["nn-ccpd-nls", "uc-ccpd-nls"])
TWO_THREADS = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT or numba.config.NUMBA_NUM_THREADS < 2), reason="needs two threads of compiled code"
)


@pytest.fixture(scope="module")
def case():
    return small_case(noise=0.02)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_an_exactly_low_rank_scene_is_recovered_from_random_starts(rank):
    recovered = 0
    for seed in range(50):
        sri, hsi, msi, degradation = small_case(rank=rank, seed=seed)
        result = fuse(hsi, msi, degradation, rank=rank, rng=seed, max_iter=500, method="nn-ccpd-nls")
        recovered += rsnr(result.sri, sri) > 100.0
    assert recovered >= 48


def test_unconstrained_factors_recover_a_low_rank_scene_too():
    sri, hsi, msi, degradation = small_case(rank=2, seed=1)
    result = fuse(hsi, msi, degradation, method="uc-ccpd-nls", rank=2, step="dogleg", max_iter=500, ftol=1e-12)
    assert rsnr(result.sri, sri) > 100.0


@METHODS
def test_cost_never_rises_and_is_the_cost_of_the_result(case, method):
    _, hsi, msi, degradation = case
    result = fuse(hsi, msi, degradation, rank=4, method=method)
    assert (np.diff(result.trace.cost) <= 0).all()
    model = observe(result.sri, *(P.toarray() for P in (degradation.P1, degradation.P2, degradation.PM)))
    cost = 0.5 * sum(np.sum((a - b) ** 2) for a, b in zip(model, (hsi, msi)))
    assert result.cost == pytest.approx(cost, rel=1e-9)
    assert len(result.trace) == result.n_iter + 1


def test_factors_and_image_are_not_negative(case):
    _, hsi, msi, degradation = case
    result = fuse(hsi, msi, degradation, rank=4)
    assert all((factor >= 0).all() for factor in result.factors)
    assert (result.sri >= 0).all()


def test_non_negativity_can_be_asked_of_chosen_modes_only(case):
    _, hsi, msi, degradation = case
    images = hsi - hsi.mean(), msi - hsi.mean()
    result = fuse(*images, degradation, method="nn-ccpd-nls", rank=4, nonnegative_modes=("rows", "columns"))
    assert (result.factors.A >= 0).all()
    assert (result.factors.C < 0).any()


def test_blocks_of_the_image_are_rendered_without_the_rest(case):
    _, hsi, msi, degradation = case
    result = fuse(hsi, msi, degradation, rank=4, max_iter=5)
    block = result.render(rows=slice(2, 7), cols=slice(0, 3), bands=[4, 9])
    assert result.image is None
    np.testing.assert_allclose(block, result.sri[2:7, 0:3][:, :, [4, 9]], rtol=1e-13)


@TWO_THREADS
@METHODS
def test_the_same_seed_gives_the_same_bytes_on_one_and_on_two_threads(case, method):
    _, hsi, msi, degradation = case

    def run(rng=7, **options):
        return fuse(hsi, msi, degradation, rank=4, max_iter=15, method=method, rng=rng, **options)

    with sharing_all_work() as shared:
        one = run(threads=1)
        assert shared.launches == 0
        for threads in range(2, numba.config.NUMBA_NUM_THREADS + 1):
            before = shared.launches
            several = run(threads=threads)
            assert shared.launches > before + 15  # at least one in each iteration
            assert several.sri.tobytes() == one.sri.tobytes()
    assert run(rng=8).sri.tobytes() != one.sri.tobytes()


@TWO_THREADS
@pytest.mark.parametrize("method", [{}, {"method": "nn-ccpd-nls"}], ids=["default", "nn-ccpd-nls"])
def test_eight_threads_fusing_at_once_give_the_serial_results(method):
    cases = [small_case(seed=seed, noise=0.02)[1:] for seed in range(8)]
    expected = [fuse(*case, rank=3, max_iter=10, threads=1, **method).sri.tobytes() for case in cases]
    found = [None] * 8

    def work(n):
        found[n] = fuse(*cases[n], rank=3, max_iter=10, **method).sri.tobytes()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    with sharing_all_work() as shared:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == expected
    assert shared.launches > 0


def test_thread_settings_are_left_as_found(case):
    _, hsi, msi, degradation = case
    before = numba.get_num_threads()
    fuse(hsi, msi, degradation, rank=2, max_iter=2, threads=1)
    assert numba.get_num_threads() == before
    with pytest.raises(ValueError, match="^threads"):
        fuse(hsi, msi, degradation, threads=10_000)
    assert numba.get_num_threads() == before


@METHODS
@pytest.mark.parametrize("power", [-20, 20])
def test_data_scaled_by_a_power_of_two_give_the_same_image_bit_for_bit(case, method, power):
    _, hsi, msi, degradation = case
    factor = 2.0**power
    plain = fuse(hsi, msi, degradation, rank=3, max_iter=20, method=method)
    scaled = fuse(hsi * factor, msi * factor, degradation, rank=3, max_iter=20, method=method)
    assert (scaled.sri / factor).tobytes() == plain.sri.tobytes()
    assert scaled.cost == plain.cost * factor**2


def test_sensor_counts_and_reflectances_give_the_same_answer():
    _, hsi, msi, degradation = small_case(noise=0.01)
    counts = [np.clip(np.rint(image * 3000), 0, 65535).astype(np.uint16) for image in (hsi, msi)]
    # The two differ by rounding, which the iterations amplify before the optimum pulls them together again.
    tight = {"rank": 3, "max_iter": 500, "ftol": 1e-10}
    by_counts = fuse(*counts, degradation, **tight)
    by_reflectance = fuse(*(image / 10000 for image in counts), degradation, **tight)
    np.testing.assert_allclose(by_counts.sri, by_reflectance.sri * 10000, rtol=1e-4, atol=1e-4 * by_counts.sri.max())
    assert by_counts.cost == pytest.approx(by_reflectance.cost * 1e8, rel=1e-7)
    assert by_counts.sri.dtype == np.float64


def test_float32_in_is_float32_out_and_nearly_as_good(case):
    sri, hsi, msi, degradation = case
    double = fuse(hsi, msi, degradation, rank=3)
    single = fuse(hsi.astype(np.float32), msi.astype(np.float32), degradation, rank=3)
    assert single.sri.dtype == np.float32
    assert abs(rsnr(single.sri.astype(float), sri) - rsnr(double.sri, sri)) < 0.05


def test_several_starts_keep_the_best_and_report_the_spread(case):
    _, hsi, msi, degradation = case
    one = fuse(hsi, msi, degradation, method="nn-ccpd-auto", rank=5, max_iter=20, rng=3)
    four = fuse(hsi, msi, degradation, method="nn-ccpd-auto", rank=5, max_iter=20, rng=3, starts=4)
    assert len(four.start_costs) == 4
    assert four.cost == min(four.start_costs)
    assert four.start_costs[0] == one.cost
    assert len(set(four.start_costs)) == 4


def test_a_given_start_is_checked_copied_and_lifted_off_zero(case):
    _, hsi, msi, degradation = case
    rng = np.random.default_rng(0)
    init = [rng.random((n, 3)) for n in degradation.sri_shape]
    init[0][0, 0] = 0.0
    before = [factor.copy() for factor in init]
    result = fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=3, init=init, max_iter=30)
    assert all((a == b).all() for a, b in zip(init, before))
    better = fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=3, init=result.factors, max_iter=30)
    assert better.cost <= result.cost * (1.0 + 1e-6)  # both have settled
    assert better.trace.cost[0] == pytest.approx(result.cost, rel=1e-2)
    assert result.factors.A[0, 0] > 0
    for bad, words in [
        ([f[:, :2] for f in init], "shapes"),
        ([-f for f in init], "negative"),
        (init[:2], "shapes"),
        (3, "got int"),
        ([np.full_like(f, np.nan) for f in init], "NaN"),
        ([0 * f for f in init], "all zeros"),
    ]:
        with pytest.raises((ValueError, TypeError), match=f"^init.*{words}"):
            fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=3, init=bad)


def test_callback_and_time_limit_stop_the_run_with_a_usable_result(case):
    _, hsi, msi, degradation = case
    result = fuse(hsi, msi, degradation, rank=3, callback=lambda state: state.n_iter == 4, starts=3)
    assert result.status is Status.CALLBACK
    assert result.n_iter == 4
    assert len(result.start_costs) == 1
    result = fuse(hsi, msi, degradation, rank=3, time_limit=0.0)
    assert result.status is Status.TIME_LIMIT
    assert np.isfinite(result.sri).all()
    assert not result.converged


def test_an_exception_in_the_callback_reaches_the_caller_and_leaves_no_lock(case):
    _, hsi, msi, degradation = case

    def interrupt(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fuse(hsi, msi, degradation, rank=3, callback=interrupt)
    assert fuse(hsi, msi, degradation, rank=3).converged


@pytest.mark.parametrize("options", [{}, {"method": "nn-ccpd-nls", "step": "dogleg"}])
def test_the_result_says_how_to_make_it_again(case, options):
    _, hsi, msi, degradation = case
    first = fuse(hsi, msi, degradation, rank=3, rng=5, max_iter=12, **options)
    again = fuse(hsi, msi, degradation, method=first.method, rng=first.seed, **first.options)
    assert again.sri.tobytes() == first.sri.tobytes()
    assert first.provenance["versions"].keys() >= {"fastccpd", "numpy", "numba", "scipy"}
    assert "24×20×30" in repr(first)


def test_a_method_object_is_as_good_as_its_name(case):
    _, hsi, msi, degradation = case
    by_name = fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=3, max_iter=9)
    by_object = fuse(hsi, msi, degradation, method=NNCCPDNLS(rank=3, max_iter=9))
    assert by_object.sri.tobytes() == by_name.sri.tobytes()
    with pytest.raises(TypeError, match="^rank"):
        fuse(hsi, msi, degradation, method=UCCCPDNLS(), rank=3)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"method": "nn-ccpd"}, ValueError, "method: got 'nn-ccpd'; did you mean 'nn-ccpd-nls'"),
        ({"rnak": 3}, TypeError, "rnak: .*did you mean 'rank'"),
        ({"rank": 10**9}, MemoryError, "GB beside the images"),
        ({"rank": "30"}, TypeError, "rank: got '30'"),
        ({"rank": 2.5}, TypeError, "rank: got 2.5"),
        ({"rank": True}, TypeError, "rank: got True"),
        ({"rank": 0}, ValueError, "rank: got 0"),
        ({"starts": 0}, ValueError, "starts: got 0"),
        ({"time_limit": -1}, ValueError, "time_limit: got -1"),
        ({"callback": 3}, TypeError, "callback: got int"),
        ({"rng": -1}, ValueError, "rng: got -1"),
        ({"rng": "seed"}, TypeError, "rng: got 'seed'"),
        ({"method": "nn-ccpd-nls", "step": "newton"}, ValueError, "step: got 'newton'"),
    ],
)
def test_silly_options_get_one_clear_sentence(case, options, error, words):
    _, hsi, msi, degradation = case
    with pytest.raises(error, match=words):
        fuse(hsi, msi, degradation, **options)


def test_wrong_shapes_name_the_argument_and_both_numbers(case):
    _, hsi, msi, degradation = case
    with pytest.raises(ValueError, match="msi: 19 columns, but P2 maps from 20; they must agree"):
        fuse(hsi, msi[:, :19], degradation)
    with pytest.raises(ValueError, match="hsi: 29 bands, but PM maps from 30; they must agree"):
        fuse(hsi[:, :, :29], msi, degradation)
    with pytest.raises(ValueError, match="hsi: holds NaN or infinite values"):
        fuse(np.where(hsi > hsi.mean(), np.nan, hsi), msi, degradation)


# Maps: as many as there can be, which no shape can tell; nor whether the verdict has to fit a blur.
@pytest.mark.parametrize(("method", "most", "materials"), [("nn-ccpd-nls", 1.35, 4), ("nn-ccpd-auto", 2.0, 36)])
def test_memory_estimate_bounds_what_a_run_allocates(method, most, materials):
    shape = (96, 80, 60)
    sri = low_rank_scene(shape, materials, 0)
    degradation = fastccpd.Degradation(blur(96), blur(80), band_means(60, 6))
    hsi, msi = observe(sri, blur(96), blur(80), band_means(60, 6))
    for rank in (8, 40):
        fuse(hsi, msi, degradation, method=method, rank=rank, max_iter=2)
        tracemalloc.start()
        try:
            fuse(hsi, msi, degradation, method=method, rank=rank, max_iter=5)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        estimate = fastccpd.memory_needed(hsi, msi, method=method, rank=rank)
        assert peak <= estimate <= most * peak


LARGE_RUN = """
import resource, sys
import numpy as np, fastccpd
from scenery import band_means, blur

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

rng = np.random.default_rng(0)
def image(*shape):
    out = np.empty(shape)
    for row in out:
        row[...] = 1.0 + rng.random(row.shape)
    return out

def case(n):
    return image(n // 4, n // 4, 200), image(n, n, 8), fastccpd.Degradation(blur(n), blur(n), band_means(200, 8))

fastccpd.fuse(*case(64), method="nn-ccpd-nls", rank=2, max_iter=2)  # loads the kernels and Numba itself
hsi, msi, degradation = case(1024)
before = peak()
result = fastccpd.fuse(hsi, msi, degradation, method="nn-ccpd-nls", rank=64, max_iter=3)
for i in range(0, 1024, 256):
    assert np.isfinite(result.render(rows=slice(i, i + 8))).all()
print(peak() - before)
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT or sys.platform == "win32"), reason="large: for compiled kernels")
def test_a_large_fusion_by_the_papers_method_takes_less_than_eighty_megabytes_beside_its_images():
    command = [sys.executable, "-c", LARGE_RUN]
    # Large blocks go back to the system when they are freed: else what the allocator keeps counts too, by chance.
    settings = {"cwd": Path(__file__).parent, "env": {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}}
    done = subprocess.run(command, **settings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    estimate = fastccpd.memory_needed((256, 256, 200), (1024, 1024, 8), method="nn-ccpd-nls", rank=64)
    assert int(done.stdout) <= min(80e6, estimate)


def test_nothing_the_size_of_an_image_is_allocated_by_an_iteration():
    sri = low_rank_scene((160, 152, 80), 3, 0)
    P = blur(160), blur(152), band_means(80, 8)
    objective = coupled_cpd.CoupledCPD.of_problem(fastccpd.Problem(*observe(sri, *P), fastccpd.Degradation(*P)), 4)
    x = np.random.default_rng(0).uniform(0.5, 1.0, objective.shape)
    objective.cost_and_gradient(x)
    objective.hessp(objective.precondition(x))
    tracemalloc.start()
    try:
        _, g = objective.cost_and_gradient(1.1 * x)
        objective.hessp(objective.precondition(g))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.2 * objective.terms[1].tensor.nbytes


def test_degenerate_data_end_with_a_status_and_finite_numbers():
    _, hsi, msi, degradation = small_case()
    cases = {
        "dark MSI": (hsi, 0 * msi),
        "dark everything": (0 * hsi, 0 * msi),
        "constant": (0 * hsi + 1, 0 * msi + 1),
        "tiny": (hsi * 1e-140, msi * 1e-140),
        "huge": (hsi * 1e140, msi * 1e140),
        "negative": (-hsi, -msi),
    }
    for name, images in cases.items():
        for rank in (1, 40):
            result = fuse(*images, degradation, rank=rank, max_iter=5)
            assert isinstance(result.status, Status), name
            assert np.isfinite(result.sri).all(), name


def test_importing_the_package_compiles_nothing_and_pulls_in_no_extra():
    script = (
        "import sys, fastccpd; from fastccpd.kernels import jit;"
        "assert not any(m in sys.modules for m in ('matplotlib', 'skimage', 'tensorly', 'dask', 'rich'));"
        "assert not any(k.compiled.signatures for k in jit.KERNELS)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ltmr", {}),
        ("nn-btd-mu", {}),
        ("hysure", {}),
        ("fuse-sylvester", {}),
        ("scott", {}),
        ("b-scott", {}),
        ("cnmf", {"rank": 4}),
    ],
)
def test_a_rank_that_the_images_cannot_have_is_refused_before_any_work(name, options, monkeypatch):
    _, hsi, msi, degradation = small_case((24, 20, 3), bands=2)
    monkeypatch.setattr("fastccpd.fusion.verdict_of", lambda problem: pytest.fail("the pair was judged"))
    with pytest.raises(ValueError, match=r"^rank: got \d+ ?.*; at most \d+ is possible with th"):
        fuse(hsi, msi, degradation, method=name, **options)
