"""Two images that disagree about response and place: what makes them agree, and what is left alone."""

import numpy as np
import pytest

from fastccpd import Degradation, Problem, fuse
from fastccpd.estimation import fit_maps, mend_of, noise_of
from fastccpd.estimation.mend import _moved
from fastccpd.imaging import metrics
from fastccpd.methods.auto import Auto
from fastccpd.testing import simulated

# A response that is off by up to 5 %, band by band.
OFF = 1.0 + 0.05 * np.cos(np.arange(6.0))


def problem_of(case, gains=1.0, msi=None):
    """The images of a case, with a response whose rows are multiplied."""
    given = case.degradation
    PM = given.PM.toarray() * np.broadcast_to(gains, len(given.PM.toarray()))[:, None]
    return Problem(case.hsi, case.msi if msi is None else msi, Degradation(given.P1, given.P2, PM))


def mended(problem):
    return mend_of(problem, noise_of(problem))


def moved(image, shift, width):
    """An image as an MSI would see it that lies elsewhere, and is as much sharper."""
    W1, W2 = (_moved(size, -by, width**2).toarray() for size, by in zip(image.shape[:2], shift, strict=True))
    return np.einsum("ab,bck,dc->adk", W1, image, W2, optimize=True)


class TestMoving:
    def test_moves_and_smooths_by_as_much_as_it_says(self):
        line = np.arange(41.0)
        for shift, width in ((0.0, 0.0), (0.4, 0.0), (-0.3, 0.45), (0.0, 1.2)):
            row = _moved(41, shift, width**2).toarray()[20]
            mean = row @ line
            np.testing.assert_allclose(row.sum(), 1.0)
            np.testing.assert_allclose(mean, 20.0 + shift, atol=1e-12)
            np.testing.assert_allclose(row @ (line - mean) ** 2, width**2, atol=1e-12)

    def test_keeps_what_is_flat_at_the_ends(self):
        np.testing.assert_allclose(_moved(13, 0.37, 0.7) @ np.ones(13), 1.0)


class TestWhatAgrees:
    @pytest.mark.parametrize("level", [5.0, 30.0, None])
    def test_is_left_alone(self, level):
        assert mended(problem_of(simulated("synthetic", level, 0))) is None

    @pytest.mark.parametrize("condition", ["shifted", "narrow-blur", "wide-blur"])
    def test_a_blur_that_alone_is_wrong_is_no_fault_of_the_msi(self, condition):
        assert mended(problem_of(simulated(f"synthetic:{condition}", 40.0, 0))) is None

    def test_what_no_response_explains_is_not_mended(self):
        case = simulated("synthetic", 40.0, 0)
        msi = case.msi.copy()
        msi[:30, :30] = msi[:30, :30, ::-1]
        problem = problem_of(case, msi=msi)
        assert noise_of(problem).disagreement.any()
        assert mended(problem) is None


class TestAWrongResponse:
    def test_is_mended_where_the_scene_tells_of_it(self):
        case = simulated("synthetic", 40.0, 0)
        mend, noise = mended(problem_of(case, OFF))
        assert mend.shift == (0.0, 0.0)
        assert mend.width == 0.0
        assert mend.before.disagreement.any()
        assert mend.status.converged
        assert mend.seconds > 0.0
        assert not noise.disagreement.any()
        seen = case.truth @ mend.degradation.PM.toarray().T
        true = case.truth @ case.degradation.PM.toarray().T
        assert np.linalg.norm(seen - true) < 0.005 * np.linalg.norm(true)

    def test_costs_the_image_nothing(self):
        case = simulated("synthetic", 40.0, 0)
        true, wrong = (problem_of(case, gains) for gains in (1.0, OFF))
        best, found = (metrics.rsnr(fuse(p.hsi, p.msi, p.degradation).sri, case.truth) for p in (true, wrong))
        assert found > best - 0.3

    def test_is_none_of_its_business_where_factors_are_shown(self):
        case = simulated("synthetic", 40.0, 0)
        p = problem_of(case, OFF)
        assert "mend" in fuse(p.hsi, p.msi, p.degradation).stages
        assert Auto(show="factors").prepare(p).mend is None
        assert Auto(show="maps").prepare(p).mend is not None


class TestAnMSIThatLiesElsewhere:
    def case(self, shift=(0.3, -0.4)):
        """Images whose HSI is P times the truth, and whose MSI is the truth moved, by another response."""
        case = simulated("synthetic", 40.0, 0)
        elsewhere = moved(case.truth, shift, 0.0) @ (case.degradation.PM.toarray() * OFF[:, None]).T
        noise = case.msi - case.truth @ case.degradation.PM.toarray().T
        return case, problem_of(case, msi=elsewhere + noise)

    def test_is_found(self):
        mend, noise = mended(self.case()[1])
        np.testing.assert_allclose(mend.shift, (0.3, -0.4), atol=0.05)
        assert not noise.disagreement.any()

    def test_is_moved_to_where_the_hsi_says_that_the_scene_is(self):
        case, p = self.case()
        result = fuse(p.hsi, p.msi, p.degradation)
        assert result.shown == "maps"
        assert "agree" in result.stages["choice"].reason
        between = metrics.rsnr(fit_maps(p, errors=False).maps.render(), case.truth)
        assert metrics.rsnr(result.sri, case.truth) > between + 3.0
        assert result.uncertainty.shape == case.truth.shape[:2]
        assert (result.uncertainty > 0.0).all()

    def test_by_more_than_a_pixel_is_not_believed(self):
        found = mended(self.case(shift=(0.0, 1.8))[1])
        assert found is None or found[0].shift == (0.0, 0.0)
