"""The path of ranks and the risk that chooses among them."""

from dataclasses import replace

import numpy as np
import pytest
from scenery import rsnr, small_case
from scipy.optimize import nnls

from fastccpd import Problem, fuse
from fastccpd.estimation import fit_rank_path, image_risk, noise_of, rank_path, ranks_for, signal_basis, unseen_spectra
from fastccpd.estimation.chain import Chain, hopeless
from fastccpd.estimation.decomposition import misfits
from fastccpd.estimation.image_risk import CAUTIOUS, ImageRisk, foreseen_risk
from fastccpd.estimation.rank_path import RANKS, effective_rank, likely_spectra
from fastccpd.estimation.unseen_spectra import with_likely_spectra
from fastccpd.imaging import add_noise, degrade, landsat, preset
from fastccpd.model.result import Status
from fastccpd.solver import CoupledCPD, Options, minimize
from fastccpd.solver.starts import given_start

NOISE = 0.05


def pieces(rank=3, noise=NOISE, shape=(32, 28, 30)):
    """(scene, problem, objective by rank, risk by objective and x)."""
    scene, hsi, msi, degradation = small_case(shape, rank=rank, noise=noise)
    problem = Problem(hsi, msi, degradation)
    sigmas = np.full(hsi.shape[2], max(noise, 1e-4)), np.full(msi.shape[2], max(noise, 1e-4))

    def objective_of(rank):
        return CoupledCPD.of_problem(problem, rank)

    return scene, problem, objective_of, lambda objective, x: image_risk(objective, x, sigmas).total


def test_the_rank_of_a_scene_is_found_in_its_noise():
    for rank, found in ((3, {3}), (7, {7, 10})):
        scene, problem, objective_of, risk_of = pieces(rank)
        path, x = fit_rank_path(problem, objective_of, risk_of, rng=np.random.default_rng(0))
        assert path.rank in found
        assert path.rank == x.shape[1]
        assert path.ranks[:2] == RANKS[:2]
        assert set(path.ranks) <= set(RANKS)
        assert len(set(path.ranks)) == len(path.ranks)
        assert path.risk == path.risks[path.ranks.index(path.rank)] == min(path.risks)
        assert not path.at_end
        assert path.status.converged
        estimate = objective_of(path.rank).factors(x).render()
        assert -10.0 * np.log10(path.risk) == pytest.approx(rsnr(estimate, scene), abs=6.0)


def test_the_variance_is_that_of_refits_to_other_noise():
    """Of the true rank, from the truth, where a fit is nearly linear in the noise."""
    scene, hsi, msi, degradation = small_case((32, 28, 30), rank=3, noise=0.0)
    sigma, rng, images, found = 0.02, np.random.default_rng(5), (hsi, msi), []
    sigmas = [np.full(image.shape[2], sigma) for image in images]
    clean = minimize(
        CoupledCPD.of_problem(Problem(*images, degradation), 3, "identity"),
        np.vstack(factors_of(scene, 3)),
        Options(ftol=1e-10),
    ).x
    for _ in range(6):
        noisy = [image + sigma * rng.standard_normal(image.shape) for image in images]
        objective = CoupledCPD.of_problem(Problem(*noisy, degradation), 3, "identity")
        x = minimize(objective, clean, Options(ftol=1e-8)).x
        found.append(np.sum((objective.factors(x).render() - scene) ** 2) / np.sum(scene**2))
        risk = image_risk(objective, x, sigmas, seed=1)
    assert np.mean(found) / risk.variance == pytest.approx(1.0, abs=0.4)
    parameters = (sum(scene.shape) - 2) * 3
    assert 0.8 * parameters < risk.degrees_of_freedom < 1.2 * parameters
    assert sum(risk.bias) < 0.5 * risk.variance


def factors_of(scene, rank, seed=0):
    """The factors that `scenery.low_rank_scene` made it of."""
    rng = np.random.default_rng(seed)
    return [rng.random((n, rank)) for n in scene.shape]


def test_what_a_model_lacks_is_bias_and_what_it_has_too_much_is_variance():
    _, _, objective_of, _ = pieces(rank=7)
    sigmas = np.full(30, NOISE), np.full(5, NOISE)
    risks = {}
    for rank in (3, 7, 20):
        objective = objective_of(rank)
        x = minimize(objective, np.random.default_rng(0).random(objective.shape)).x
        risks[rank] = image_risk(objective, x, sigmas)
    assert sum(risks[3].bias) > 3.0 * sum(risks[7].bias)
    assert risks[20].variance > 3.0 * risks[7].variance
    assert risks[7].total == min(risk.total for risk in risks.values())


def test_a_risk_in_a_basis_counts_the_noise_within_it():
    _, problem, _, _ = pieces(rank=3)
    noise = noise_of(problem)
    E = signal_basis(noise, 5)
    risks = []
    for basis in (None, E):
        objective = CoupledCPD.of_problem(problem, 3, basis=basis)
        x = minimize(objective, np.random.default_rng(0).random(objective.shape)).x
        risks.append(image_risk(objective, x, (noise.hsi, noise.msi)))
    assert risks[1].variance < risks[0].variance
    assert risks[1].degrees_of_freedom < risks[0].degrees_of_freedom


def test_gaps_have_no_noise():
    _, problem, _, _ = pieces(rank=3)
    valid = np.ones(problem.msi.shape[:2], bool)
    valid[:8] = False
    gappy = Problem(problem.hsi, problem.msi, problem.degradation, msi_valid=valid)
    sigmas = np.full(30, NOISE), np.full(5, NOISE)
    objective = CoupledCPD.of_problem(gappy, 3)
    x = minimize(objective, np.random.default_rng(0).random(objective.shape)).x
    risk = image_risk(objective, x, sigmas)
    assert 0.0 < risk.total < 0.02
    assert sum(risk.bias) < 0.1 * risk.total


def test_a_path_goes_on_from_a_given_start_and_ends_when_it_is_told():
    _, problem, objective_of, risk_of = pieces(rank=7)
    objective = objective_of(4)
    x = minimize(objective, np.random.default_rng(0).random(objective.shape)).x
    start = given_start(objective.factors(x), problem, 4, "square", 1.0)
    rng = np.random.default_rng(0)
    path, _ = fit_rank_path(problem, objective_of, risk_of, rng=rng, start=start)
    assert path.ranks[:3] == (4, 5, 7)
    assert path.rank in path.ranks
    seen = []
    chain = Chain("rank", lambda state: seen.append(state.n_iter) or len(seen) == 30)
    halted, x = fit_rank_path(problem, objective_of, risk_of, rng=rng, chain=chain)
    assert halted.status is Status.CALLBACK
    assert seen == list(range(30))
    assert x.shape[1] == halted.rank <= 7
    late, _ = fit_rank_path(problem, objective_of, risk_of, rng=rng, chain=Chain("rank", None, 0.0))
    assert (late.status, late.ranks) == (Status.TIME_LIMIT, (3,))


@pytest.mark.parametrize(
    ("risks", "tried"),
    [
        ({}, (3, 5, 7, 10, 14, 20)),  # falls slowly: every rank
        ({3: 9.0, 5: 5.0, 10: 3.0, 20: 2.9}, (3, 5, 10, 20)),  # steeply: every other one
        ({3: 9.0, 5: 5.0, 10: 6.0, 7: 4.0}, (3, 5, 10, 7)),  # and back to what was passed over
        ({3: 9.0, 5: 5.0, 10: 5.5, 7: 7.0}, (3, 5, 10, 7)),
        ({3: 9.0, 5: 8.0, 7: 8.1, 10: 8.05}, (3, 5, 7, 10)),  # two in a row that are no better
        ({3: 9.0, 5: 12.0}, (3, 5)),
    ],
)
def test_a_path_passes_over_ranks_where_the_risk_falls_steeply(risks, tried):
    _, problem, objective_of, _ = pieces(rank=3)

    def risk_of(objective, x):
        return risks.get(objective.rank, 10.0 - 0.1 * objective.rank)

    how = {"rng": np.random.default_rng(0), "options": Options(max_iter=2), "ranks": RANKS[:6]}
    path, x = fit_rank_path(problem, objective_of, risk_of, **how)
    assert path.ranks == tried
    assert path.rank == x.shape[1] == tried[np.argmin([risk_of(objective_of(rank), None) for rank in tried])]
    assert path.at_end == (path.rank == 20)


def test_a_path_without_noise_does_not_end_where_a_fit_was_not_brought_to_its_end():
    _, problem, objective_of, _ = pieces(rank=3)
    risks = {3: 9.0, 5: 5.0, 7: 5.0, 10: 8.0, 14: 7.0, 20: 1.0}
    how = {"rng": np.random.default_rng(0), "options": Options(max_iter=2), "ranks": RANKS[:6], "ends_at_rise": False}
    path, x = fit_rank_path(problem, objective_of, lambda objective, x: risks[objective.rank], **how)
    assert path.ranks == (3, 5, 10, 14, 20)
    assert x.shape[1] == path.rank == 20


def test_fits_of_many_terms_end_sooner():
    _, problem, objective_of, _ = pieces(rank=7, noise=0.0)

    def path(**hasty):
        how = {"rng": np.random.default_rng(0), "ranks": (3, 20)}
        return fit_rank_path(problem, objective_of, lambda objective, x: 1.0 / objective.rank, **how, **hasty)[0]

    patient, few, hasty = path(), path(hasty=20), path(hasty=1)
    assert len(few.trace) == len(patient.trace)
    assert len(hasty.trace) < len(patient.trace)
    assert hasty.trace.cost[-1] > patient.trace.cost[-1]


def test_a_rank_whose_risk_is_foreseen_to_be_too_high_is_not_tried():
    _, problem, objective_of, _ = pieces(rank=3)
    risks = {3: 9.0, 5: 5.0, 7: 4.8, 10: 4.7, 14: 4.6}

    def tried(**foreseen):
        how = {"rng": np.random.default_rng(0), "options": Options(max_iter=2), "ranks": RANKS[:5]}
        return fit_rank_path(problem, objective_of, lambda o, x: risks[o.rank], **how, **foreseen)[0].ranks

    assert tried() == (3, 5, 10, 14)
    assert tried(foreseen=lambda rank: 4.0 if rank < 14 else 6.0) == (3, 5, 10)
    assert tried(foreseen=lambda rank: 6.0 if rank == 10 else 4.0) == (3, 5, 7), "one is not passed over to a bad one"


def test_a_risk_is_foreseen_by_a_variance_that_grows_and_a_bias_that_falls():
    known = {10: ImageRisk(0.1, (0.3, 0.1), 1.0)}
    assert foreseen_risk(known, 20) == 0.0
    known[20] = ImageRisk(0.3, (0.1, 0.1), 1.0)
    assert foreseen_risk(known, 40) == pytest.approx(CAUTIOUS * 0.6 + 0.1)
    assert foreseen_risk(known, 80) == pytest.approx(CAUTIOUS * 1.2 + 0.05)
    known[40] = ImageRisk(0.5, (0.1, 0.2), 1.0)  # the bias has risen: it is taken as it is
    assert foreseen_risk(known, 80) == pytest.approx(CAUTIOUS * 1.0 + 0.3)


def test_without_noise_the_path_goes_to_its_end():
    rng = np.random.default_rng(0)
    scene = rng.random((32, 28, 30))  # of no low rank at all
    _, hsi, msi, degradation = small_case(scene.shape)
    P1, P2, PM = degradation.P1, degradation.P2, degradation.PM
    hsi, msi = np.einsum("ai,ijk,bj->abk", P1.toarray(), scene, P2.toarray(), optimize=True), scene @ PM.toarray().T
    problem = Problem(hsi, msi, degradation)
    sigmas = np.full(30, 1e-6), np.full(5, 1e-6)
    path, _ = fit_rank_path(
        problem,
        lambda rank: CoupledCPD.of_problem(problem, rank),
        lambda objective, x: sum(image_risk(objective, x, sigmas).bias),
        rng=rng,
        options=Options(max_iter=20),
    )
    assert path.at_end
    assert path.rank == path.ranks[-1] == ranks_for(hsi.shape, msi.shape)[-1]


@pytest.mark.parametrize(
    ("hsi", "msi", "ranks"),
    [
        ((20, 21, 204), (80, 84, 6), RANKS[:11]),
        ((256, 256, 200), (1024, 1024, 8), RANKS),
        ((1, 1, 1), (1, 1, 1), (1,)),
        ((2, 2, 8), (8, 8, 3), (3,)),
    ],
)
def test_ranks_leave_data_enough_for_their_parameters(hsi, msi, ranks):
    assert ranks_for(hsi, msi) == ranks


def test_terms_that_are_nothing_do_not_count():
    _, _, objective_of, _ = pieces()
    factors = objective_of(4).factors(np.random.default_rng(0).random((90, 4)))
    assert effective_rank(factors) == 4
    factors.C[:, 1] *= 1e-5
    assert effective_rank(factors) == 3


def test_the_basis_has_the_spectra_above_the_noise():
    scene, *images = small_case((32, 28, 30), rank=4, noise=0.01)
    noise = noise_of(Problem(*images))
    E = signal_basis(noise)
    assert E.shape == (30, 4)
    np.testing.assert_allclose(E.T @ E, np.eye(4), atol=1e-12)
    inside = scene @ E @ E.T
    assert np.sum((scene - inside) ** 2) < 1e-4 * np.sum(scene**2)
    assert signal_basis(noise, 7).shape == (30, 7)
    with pytest.raises(ValueError, match="count: got 31; a whole number of at least 1 and at most 30 is needed"):
        signal_basis(noise, 31)


def test_a_fit_is_given_up_where_its_gain_would_not_lead_to_the_cost_that_is_needed():
    fast, slow = [100.0 * 0.5**n for n in range(30)], [100.0 * 0.99**n for n in range(30)]
    assert not any(hopeless(fast[: n + 1], 1e-6) for n in range(30))
    assert not any(hopeless(slow[: n + 1], 1.0) for n in range(10)), "ten iterations are too few to say"
    assert hopeless(slow, 1.0)
    assert not hopeless(slow, 60.0)
    assert hopeless(slow, -1.0)
    assert not hopeless([2.0] * 20, 3.0), "it is there"


def test_a_path_that_needs_what_it_cannot_reach_ends_each_fit_early_and_is_not_halted():
    _, problem, objective_of, risk_of = pieces(rank=7)

    def path(**needed):
        return fit_rank_path(problem, objective_of, risk_of, rng=np.random.default_rng(0), ranks=(3,), **needed)

    (whole, _), (given_up, x) = path(), path(needed=lambda rank: 1e-12)
    assert given_up.status.goes_on_to_next_start
    assert x.shape[1] == 3
    assert len(given_up.trace) < len(whole.trace)


def test_spectra_that_the_hsi_does_not_see_are_those_that_the_msi_makes_likely():
    """A term too fine for the HSI, whose spectrum is right in the MSI's bands and wrong between them."""
    rng, (rows, columns, bands) = np.random.default_rng(0), (48, 40, 30)
    spectra = np.abs(np.cumsum(rng.standard_normal((bands, 4)), axis=0)) + 0.5
    blocks = np.kron(rng.integers(0, 4, (12, 10)), np.ones((4, 4), int))
    blocks[rng.random((rows, columns)) < 0.3] = 0
    scene, degradation = spectra.T[blocks], preset("stereo", (rows, columns, bands), landsat(bands))
    problem = Problem(*(add_noise(image, 40.0, rng=1) for image in degrade(scene, degradation)), degradation)
    fitted = fuse(problem.hsi, problem.msi, degradation, method="nn-ccpd-nls", rank=20).factors
    noise, left = noise_of(problem), misfits(problem, fitted)[0] / problem.hsi.size
    mended = with_likely_spectra(problem, noise, fitted, left)
    assert mended.A is fitted.A
    assert mended.B is fitted.B
    assert mended.C.min() >= 0.0
    assert rsnr(mended.render(), scene) > rsnr(fitted.render(), scene) + 0.1
    # What the MSI's bands show is weighed against their noise: where that is all there is, nothing is likely.
    drowned = with_likely_spectra(problem, replace(noise, msi_floored=1e6 * noise.msi_floored), fitted, 1e6 * left)
    assert np.linalg.norm(drowned.C) < 0.1 * np.linalg.norm(fitted.C)
    # What the HSI tells, with no error, is believed.
    certain = with_likely_spectra(problem, noise, fitted, 1e-12 * left)
    np.testing.assert_allclose(certain.C, fitted.C, atol=1e-2 * fitted.C.max())


def test_likely_spectra_that_may_not_be_negative_are_those_of_the_nearest_image():
    """Beside scipy's non-negative least squares, band by band, where columns cancel each other."""
    rng = np.random.default_rng(0)
    pictures = rng.random((40, 4)) + 3.0
    wanted = rng.standard_normal((6, 4)) + 0.5
    found = unseen_spectra._nearest_nonnegative(wanted, pictures.T @ pictures)
    assert found.min() >= 0.0

    def distance(C):
        return np.linalg.norm(pictures @ (C - wanted).T)

    nearest = np.array([nnls(pictures, pictures @ row)[0] for row in wanted])
    assert distance(nearest) * (1.0 - 1e-9) <= distance(found) < 1.05 * distance(nearest)
    assert distance(found) < 0.9 * distance(np.maximum(wanted, 0.0))
    allowed = np.abs(wanted)
    np.testing.assert_allclose(unseen_spectra._nearest_nonnegative(allowed, pictures.T @ pictures), allowed)


def test_new_terms_begin_with_spectra_of_the_scene():
    _, problem, objective_of, _ = pieces(rank=3)
    noise, rng = noise_of(problem), np.random.default_rng(0)
    spectra = likely_spectra(problem, noise)
    assert spectra.shape == (problem.hsi.shape[0] * problem.hsi.shape[1], problem.hsi.shape[2])
    start = np.abs(rng.standard_normal((sum(problem.sri_shape), 2)))
    grown = rank_path._grown(start, objective_of(5), problem, 1.0, rng, spectra)
    *_, C = objective_of(5).factors(grown)
    likeness = (C / np.linalg.norm(C, axis=0)).T @ (spectra / np.linalg.norm(spectra, axis=1)[:, None]).T
    np.testing.assert_allclose(likeness[2:].max(axis=1), 1.0, atol=1e-3)
