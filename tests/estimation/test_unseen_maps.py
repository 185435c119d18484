"""What the MSI does not see by what it sees: regressions against plain least squares, and what they are worth."""

from functools import partial

import numpy as np
import pytest
from scenery import band_means, blur, observe, rsnr
from scipy import sparse
from small_maps import begin, data_of, tiny

from fastccpd import Degradation, Problem
from fastccpd.estimation import fit_maps, noise_of, subspace_of, tv_maps, unseen_maps
from fastccpd.estimation.unseen_maps import UnseenMaps, weighted_regressions

SHAPE, BANDS = (80, 72, 40), 3


def alike(seed=0, noise=0.0, tells=True, **valid):
    """(scene, problem): textures in three spectra that the MSI sees, and in three that it does not.

    The latter go with the former, in two halves, of which one is brighter, in two ways; or with nothing.
    """
    rng = np.random.default_rng(seed)
    seen, other = (_texture(rng) for _ in range(2))
    ways = rng.standard_normal((2, 3, 3))
    unseen = np.concatenate([seen[:, :36] @ ways[0], seen[:, 36:] @ ways[1]], axis=1) if tells else other
    seen[:, 36:, 0] += 8.0
    PM = band_means(SHAPE[2], BANDS)
    hidden = np.linalg.qr(np.eye(SHAPE[2]) - np.linalg.pinv(PM) @ PM)[0][:, :3]
    scene = 5.0 + seen @ rng.uniform(0.5, 1.0, (3, SHAPE[2])) + unseen @ hidden.T
    operators = blur(SHAPE[0]), blur(SHAPE[1]), PM
    images = [image + noise * rng.standard_normal(image.shape) for image in observe(scene, *operators)]
    return scene, Problem(*images, Degradation(*operators), True, *valid.values())


def _texture(rng):
    """Three maps of patches and of what differs from pixel to pixel."""
    patches = np.kron(rng.standard_normal((20, 18, 3)), np.ones((4, 4, 1)))
    return patches + 0.5 * rng.standard_normal(patches.shape)


class Unled:
    """Total variation alone."""

    def __init__(self, *given):
        pass

    def lead(self, *given):
        pass


def fitted(problem, monkeypatch, led=True):
    with monkeypatch.context() as patch:
        if not led:
            patch.setattr(tv_maps, "UnseenMaps", Unled)
        return fit_maps(problem)


def image_of(fit):
    return fit.Z @ fit.S.T


def regressions(problem):
    """The regressions on a problem's data, and the data."""
    noise = noise_of(problem)
    subspace = subspace_of(problem, noise)
    data = data_of(problem, subspace.F, subspace.hsi, subspace.msi)
    return UnseenMaps(data, tv_maps.known_noise(problem, noise, subspace)), data


def maps_of(scene, data):
    """The maps of a scene."""
    return (scene / data.hsi.sigma) @ np.linalg.pinv(data.F).T


def test_regressions_are_weighted_least_squares(monkeypatch):
    monkeypatch.setattr(unseen_maps, "_RIDGE", 0.0)
    rng = np.random.default_rng(0)
    X, Y, weights = rng.standard_normal((4, 20, 3)), rng.standard_normal((4, 20, 2)), rng.random((4, 20))
    weights[:, 7] = 1.0
    means, slopes, parts = weighted_regressions(X, Y, weights, X[:, 7])
    for n in range(4):
        for points in (np.arange(20), np.delete(np.arange(20), 7)):
            root, A = np.sqrt(weights[n, points])[:, None], np.column_stack([np.ones(len(points)), X[n, points]])
            found = np.linalg.lstsq(root * A, root * Y[n, points], rcond=None)[0]
            left = Y[n, 7] - found[0] - X[n, 7] @ found[1:]
            if len(points) == 20:
                np.testing.assert_allclose(slopes[n], found[1:], rtol=1e-9)
                np.testing.assert_allclose(Y[n, 7] - means[n], left, rtol=1e-9)
            else:  # the point had no part in it
                np.testing.assert_allclose((Y[n, 7] - means[n]) / (1.0 - parts[n]), left, rtol=1e-9)


def test_a_quadratic_that_is_led_has_its_least_value_where_the_definition_says():
    data, model, y = tiny(maps=5)
    which, weights = np.nonzero(data.unseen)[0], np.array([3.0, 0.5])
    assert len(which) == 2
    values = np.random.default_rng(0).standard_normal((data.layout.I, 2, data.layout.J))
    energy = data.hsi.energy + data.msi.energy
    data.lead(which, weights, lambda part: values[part])
    path = begin(data)
    for _ in range(40):
        path.smooth(1e-3)
    chosen = np.zeros((2, 5))
    chosen[[0, 1], which] = 1.0
    extra = np.kron(np.eye(data.layout.I * data.layout.J), np.sqrt(weights)[:, None] * chosen)
    A = np.vstack([model, extra])
    wanted = (np.sqrt(weights)[:, None] * values).transpose(0, 2, 1).ravel()
    I, J, unit = data.layout.I, data.layout.J, data.unit
    steps = np.sqrt(1e-3) * unit * np.vstack([_steps(I, J, axis) for axis in (0, 1)])
    A = np.vstack([A, np.kron(steps, np.eye(5))])
    b = np.concatenate([y, wanted, np.zeros(len(A) - len(y) - len(wanted))])
    best = np.linalg.lstsq(A, b, rcond=None)[0].reshape(I, J, 5)
    np.testing.assert_allclose(data.layout.maps(path.Z), best, atol=1e-3 * np.abs(best).max())
    assert data.hsi.energy + data.msi.energy == energy
    assert data.led == pytest.approx(np.sum(wanted**2))


def _steps(I, J, axis):
    """Differences between neighbours of an I × J grid along an axis, as a matrix."""
    grid = np.eye(I * J).reshape(I, J, I * J)
    return np.diff(grid, axis=axis).reshape(-1, I * J)


def test_spectra_that_go_with_what_the_msi_sees_are_found(monkeypatch):
    scene, problem = alike()
    led, unled = (rsnr(image_of(fitted(problem, monkeypatch, led)), scene) for led in (True, False))
    assert led > unled + 1.0


@pytest.mark.parametrize("case", [{"tells": False}, {"noise": 1.0}], ids=["the MSI tells nothing", "noise hides them"])
def test_maps_that_cannot_be_predicted_are_left_to_total_variation(case, monkeypatch):
    _, problem = alike(**case)
    assert not len(regressions(problem)[0].which)
    led, unled = (fitted(problem, monkeypatch, led) for led in (True, False))
    assert led.Z.tobytes() == unled.Z.tobytes()


def test_no_map_is_predicted_where_the_msi_sees_all_or_nothing_or_the_scene_is_tiny():
    data, *_ = tiny(maps=2)
    assert not data.unseen.any()
    assert not len(UnseenMaps(data, 1.0).which)
    data, *_ = tiny(maps=5)
    assert data.unseen.any()
    assert not len(UnseenMaps(data, 0.0).which)  # six pixels are too few


def test_variances_are_about_the_errors_of_the_predictions():
    scene, problem = alike()
    found, data = regressions(problem)
    truth, room = maps_of(scene, data), data.layout.zeros()
    found.lead(data.layout.stack(truth), room)
    predicted = data.layout.view(room)[:, :, found.which]
    errors = np.square(predicted - truth[:, :, found.which]).mean(axis=(0, 1))
    assert 0.1 < np.median(errors / found.variances) < 3.0


def test_pixels_without_data_teach_nothing_and_are_not_led(monkeypatch):
    msi_valid, hsi_valid = np.ones((*SHAPE[:2], BANDS), bool), np.ones((20, 18, SHAPE[2]), bool)
    msi_valid[30:46, 20:36], hsi_valid[3, 4] = False, False
    scene, problem = alike(hsi=hsi_valid, msi=msi_valid)
    found, data = regressions(problem)
    assert len(found.which)
    assert not found._chosen[3, 4]
    assert not found._chosen[8:11, 6:8].any()
    assert found._chosen[15, 15]
    assert not found._known[8:11, 6:8].any()
    found.lead(data.layout.stack(maps_of(scene, data)), room := data.layout.zeros())
    seen = data.blur.coarse_of_stack(data.layout, room)[:, :, found.which]
    believed = found._believed(seen)
    assert not believed[36:40, 26:30].any()
    assert believed.max() > 0.9
    led, unled = (rsnr(image_of(fitted(problem, monkeypatch, led)), scene) for led in (True, False))
    assert led > unled


def test_pixels_that_do_not_differ_at_all_are_predicted_too(monkeypatch):
    """As rounding makes it of those that hardly do."""
    scene, problem = alike()
    found, data = regressions(problem)
    nothing = partial(np.zeros, dtype=np.float32)
    monkeypatch.setattr(unseen_maps, "_squared_distances", lambda one, other: nothing((len(one), len(other))))
    found.lead(data.layout.stack(maps_of(scene, data)), room := data.layout.zeros())
    assert np.isfinite(room).all()
    assert np.isfinite(data.target).all()


@pytest.mark.parametrize("side", [80, 83, 78])
def test_every_fine_pixel_belongs_to_one_block(side):
    rows = np.array([blur(80)[row] for row in range(20)])
    rows = np.pad(rows, ((0, 0), (0, max(0, side - 80))))[:, :side]
    centres = unseen_maps._centres(sparse.csr_array(rows))
    assert np.all(np.diff(centres) >= 0.0)
    parts = [unseen_maps._nearest(centres, side, block) for block, _ in unseen_maps._blocks((20, 1))]
    assert np.concatenate([np.arange(part.start, part.stop) for part in parts]).tolist() == list(range(side))
    np.testing.assert_allclose(centres[2:-2], 3 + 4 * np.arange(2, 18), atol=0.5)


def test_what_is_predicted_does_not_depend_on_which_blocks_were_looked_at_first(monkeypatch):
    _, problem = alike()
    images = []
    for enough in (64, 4):
        monkeypatch.setattr(unseen_maps, "_ENOUGH_BLOCKS", enough)
        found, data = regressions(problem)
        found.lead(data.layout.zeros(), room := data.layout.zeros())
        images.append(data.layout.maps(room)[:, :, found.which])
    assert images[0].tobytes() == images[1].tobytes()
