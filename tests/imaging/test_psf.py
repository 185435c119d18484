"""The blurring operators against the taps printed in the literature and a dense build from the definition."""

import numpy as np
import pytest
from scipy import ndimage, sparse

from fastccpd import Degradation
from fastccpd.imaging import gaussian, landsat, preset

BOUNDARIES = ("periodic", "reflect", "zero")
STEREO_HALF = [0.014785, 0.049731, 0.118280, 0.198923, 0.236561]
SCOTT_HALF = [0.000134, 0.004432, 0.053991, 0.241971, 0.398942]


def dense_operator(size, ratio, kernel, sigma, phase, boundary, normalise):
    """P entry by entry: the weight of fine pixel x (wherever it comes from) at the coarse pixel centred at c."""
    taps = {
        q: np.exp(-q * q / (2 * sigma**2)) / (sigma * np.sqrt(2 * np.pi))
        for q in (-(kernel - 1) / 2 + n for n in range(kernel))
    }
    if normalise:
        total = sum(taps.values())
        taps = {q: tap / total for q, tap in taps.items()}
    rows = []
    centre = phase
    while centre < size - 0.5:
        row = np.zeros(size)
        for q, tap in taps.items():
            place = int(centre + q)
            assert place == centre + q
            if boundary == "periodic":
                while place < 0:
                    place += size
                while place >= size:
                    place -= size
            elif boundary == "reflect":
                while not 0 <= place < size:
                    place = -1 - place if place < 0 else 2 * size - 1 - place
            elif not 0 <= place < size:
                continue
            row[place] += tap
        rows.append(row)
        centre += ratio
    return np.array(rows)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(
    ("shape", "ratio", "kernel", "sigma", "phase"),
    [
        ((80, 84), 4, 9, None, None),
        ((13, 22), 4, 9, 1.0, 1),
        ((17, 10), 3, 5, 0.8, 0),
        ((9, 7), 5, 11, 2.5, 4),
        ((3, 5), 2, 9, 1.3, 1),
        ((1, 2), 1, 3, 1.0, 0),
        ((6, 31), 1, 1, 0.5, None),
        ((80, 84), 4, 10, None, 1.5),
        ((13, 22), 4, 4, 1.0, 0.5),
        ((10, 14), 4, 10, 1.3, 1.5),
        ((12, 10), 2, 2, 0.9, 0.5),
        ((9, 7), 5, 12, 2.5, 3.5),
        ((3, 5), 2, 10, 1.3, 0.5),
    ],
)
def test_operators_equal_a_dense_build_from_the_definition(shape, ratio, kernel, sigma, phase, boundary, normalise):
    operators = gaussian(shape, ratio, kernel, sigma, phase, boundary, normalise)
    true_sigma = ratio / np.sqrt(8 * np.log(2)) if sigma is None else sigma
    true_phase = ratio - 1 if phase is None else phase
    for size, P in zip(shape, operators, strict=True):
        expected = dense_operator(size, ratio, kernel, true_sigma, true_phase, boundary, normalise)
        assert isinstance(P, sparse.csr_array)
        assert P.dtype == np.float64
        np.testing.assert_allclose(P.toarray(), expected, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize(("phase", "taps"), [(None, 13), (0, 13), (2.0, 13), (1.5, 14), (2.5, 14), (1.3, 14)])
def test_the_taps_reach_four_standard_deviations(phase, taps):
    for P in gaussian((40, 44), 4, phase=phase):
        assert (np.diff(P.indptr) == taps).all()


def test_a_whole_phase_is_the_same_however_it_is_written():
    for whole, written in zip(gaussian((29, 22), 4, phase=2), gaussian((29, 22), 4, phase=np.float32(2)), strict=True):
        for part in ("data", "indices", "indptr"):
            assert getattr(whole, part).tobytes() == getattr(written, part).tobytes()


def test_the_middle_of_a_coarse_pixel_is_the_centre_of_mass_of_its_row():
    for ratio in (2, 3, 4, 5):
        for size, P in zip((60, 120), gaussian((60, 120), ratio, phase=(ratio - 1) / 2), strict=True):
            middles = np.arange(size).reshape(-1, ratio).mean(axis=1)
            inside = (middles > 8) & (middles < size - 9)
            np.testing.assert_allclose((P @ np.arange(size))[inside], middles[inside], rtol=1e-13)


def test_a_mirrored_picture_is_blurred_to_the_mirror_image_by_a_centred_phase():
    fine = np.random.default_rng(0).random(24)
    for boundary in BOUNDARIES:
        P, _ = gaussian((24, 20), 4, phase=1.5, boundary=boundary)
        np.testing.assert_allclose(P @ fine[::-1], (P @ fine)[::-1], rtol=1e-14)


def test_a_centre_on_the_edge_of_the_picture_is_not_kept():
    # Of ten pixels the picture ends at 9.5, where the third centre 1.5 + 2·4 would lie.
    assert gaussian((10, 11), 4, phase=1.5)[0].shape == (2, 10)
    assert gaussian((10, 11), 4, phase=1.5)[1].shape == (3, 11)


def test_stereo_taps_are_those_published():
    degradation = preset("stereo", (80, 84, 204))
    for P, size in ((degradation.P1, 80), (degradation.P2, 84)):
        assert P.shape == (size // 4, size)
        assert (np.diff(P.indptr) == 9).all()
        np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=4e-16)
        # Coarse pixel 1 is centred at fine pixel 7 and lies wholly inside.
        row = P.toarray()[1]
        np.testing.assert_allclose(row[3:12], STEREO_HALF + STEREO_HALF[3::-1], atol=5e-7)
        assert row.argmax() == 7


def test_stereo_keeps_every_fourth_pixel_from_the_third_and_wraps_round():
    P1 = preset("stereo", (16, 12, 36)).P1.toarray()
    assert P1.argmax(axis=1).tolist() == [3, 7, 11, 15]
    np.testing.assert_allclose(P1[3, [15, 0, 1, 2, 3]], STEREO_HALF[::-1], atol=5e-7)


def test_scott_taps_are_those_published():
    degradation = preset("scott", (144, 120, 200))
    for P in (degradation.P1, degradation.P2):
        assert (np.diff(P.indptr) == 9).all()
        np.testing.assert_allclose(P.sum(axis=1), 0.999997, atol=5e-7)
        row = P.toarray()[1]
        np.testing.assert_allclose(row[1:10], SCOTT_HALF + SCOTT_HALF[3::-1], atol=5e-7)
    assert degradation.P1.toarray().argmax(axis=1)[:3].tolist() == [1, 5, 9]


def test_default_width_is_that_of_the_stereo_convention():
    P1, _ = gaussian((40, 44), 4)
    taps = P1.toarray()[3, 11:20]
    # ln(g(0)/g(q)) = q²/2σ².
    np.testing.assert_allclose(np.sqrt(4**2 / (2 * np.log(taps[4] / taps[0]))), 1.698644, atol=5e-7)


def test_presets_carry_their_response_and_accept_another():
    degradation = preset("scott", (24, 20, 200))
    assert isinstance(degradation, Degradation)
    assert abs(degradation.PM - landsat(200)).max() == 0.0
    own = np.full((1, 7), 1 / 7)
    assert preset("stereo", (24, 20, 7), PM=own).msi_shape == (24, 20, 1)
    with pytest.raises(ValueError, match=r"PM: maps from 7 bands, but shape has 8"):
        preset("stereo", (24, 20, 8), PM=own)


def test_presets_work_at_other_ratios():
    assert preset("stereo", (30, 35, 40), ratio=5).P1.toarray().argmax(axis=1).tolist() == [4, 9, 14, 19, 24, 29]
    assert preset("scott", (9, 12, 40), ratio=3).P1.toarray().argmax(axis=1).tolist() == [1, 4, 7]
    assert preset("scott", (9, 12, 40), ratio=1).hsi_shape == (9, 12, 40)


@pytest.mark.parametrize(("boundary", "mode"), [("periodic", "wrap"), ("reflect", "reflect"), ("zero", "constant")])
def test_operator_and_adjoint_are_blur_then_keep_and_insert_then_blur(boundary, mode):
    rng = np.random.default_rng(1)
    for size, P in zip((29, 22), gaussian((29, 22), 4, 9, phase=2, boundary=boundary), strict=True):
        taps = np.exp(-0.5 * (np.arange(-4, 5) / (4 / np.sqrt(8 * np.log(2)))) ** 2)
        taps /= taps.sum()
        fine, coarse = rng.standard_normal(size), rng.standard_normal(P.shape[0])
        np.testing.assert_allclose(P @ fine, ndimage.correlate1d(fine, taps, mode=mode)[2::4], atol=1e-15)
        # The blur is symmetric at each of these boundaries, so the adjoint spreads what was inserted between zeros.
        inserted = np.zeros(size)
        inserted[2::4] = coarse
        spread = ndimage.correlate1d(inserted, taps, mode=mode)
        np.testing.assert_allclose(P.T @ coarse, spread, atol=1e-15)
        assert np.isclose((P @ fine) @ coarse, fine @ spread, rtol=1e-13)


@pytest.mark.parametrize("boundary", ["periodic", "reflect"])
def test_rows_sum_to_one_where_nothing_leaves_the_picture(boundary):
    for P in gaussian((15, 8), 4, boundary=boundary):
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=4e-16)


def test_zero_boundary_loses_what_lies_outside():
    P1, _ = gaussian((16, 12), 4, 9, phase=0, boundary="zero")
    sums = P1.sum(axis=1)
    half = np.array(STEREO_HALF)
    np.testing.assert_allclose(sums[0], half.sum(), atol=2e-6)
    np.testing.assert_allclose(sums[1], 1.0, atol=4e-16)


def test_very_narrow_gaussian_is_plain_decimation():
    P1, P2 = gaussian((10, 7), 2, sigma=1e-200)
    np.testing.assert_array_equal(P1.toarray(), np.eye(10)[1::2])
    np.testing.assert_array_equal(P2.toarray(), np.eye(7)[1::2])


def test_very_narrow_gaussian_between_two_pixels_is_their_mean():
    P1, P2 = gaussian((10, 8), 2, sigma=1e-200, phase=0.5)
    for P in (P1, P2):
        np.testing.assert_array_equal(P.toarray(), np.kron(np.eye(P.shape[0]), [[0.5, 0.5]]))


def test_nonzeros_grow_with_the_picture_and_not_with_its_square():
    P1, P2 = gaussian((4096, 2050), 4, 9)
    assert P1.nnz == 9 * 1024
    assert P2.nnz == 9 * 512


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (8,)}, r"shape: got \(8,\); \(rows, columns\) is needed"),
        ({"shape": 8}, r"shape: got 8"),
        ({"shape": (8, 0)}, r"shape\[1\]: got 0"),
        ({"shape": (8, 3)}, r"shape: 3 columns, but the first kept is number 3"),
        ({"ratio": 0}, r"ratio: got 0"),
        ({"kernel": 8}, r"kernel: got 8; an odd number"),
        ({"sigma": 0.0}, r"sigma: got 0"),
        ({"sigma": np.inf}, r"sigma: got inf; a finite"),
        ({"phase": 4}, r"phase: got 4; .* at most 3"),
        ({"phase": 3.5}, r"phase: got 3.5; .* at most 3"),
        ({"sigma": 1e9}, r"sigma: got 1000000000.0; at most 16 fine pixels"),
        ({"phase": np.nan}, r"phase: got nan"),
        ({"phase": 1.5, "kernel": 9}, r"kernel: got 9; an even number of taps is needed, for phase 1.5 lies between"),
        ({"phase": 2.5, "shape": (8, 3)}, r"shape: 3 columns, but the first kept is number 2.5"),
        ({"phase": -1}, r"phase: got -1"),
        ({"boundary": "mirror"}, r"boundary: got 'mirror'"),
    ],
)
def test_gaussian_refuses_what_it_cannot_build(arguments, message):
    with pytest.raises(ValueError, match=message):
        gaussian(**({"shape": (8, 12), "ratio": 4} | arguments))


def test_unknown_preset_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"name: got 'tensor'; 'stereo' or 'scott'"):
        preset("tensor", (8, 12, 40))
    with pytest.raises(ValueError, match=r"shape: got \(8, 12\); \(rows, columns, bands\)"):
        preset("stereo", (8, 12))
