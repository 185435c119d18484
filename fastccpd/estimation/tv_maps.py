"""A scene as a few maps times a few spectra, freed of noise by total variation: the image of the default method.

The model, a subspace of spectra and vector total variation on its maps, is that of HySure (Simões, Bioucas-Dias,
Almeida, Chanussot: A convex formulation for hyperspectral image superresolution via subspace-based regularization,
2015). What is found from the data here, and set by hand there: the noise of each band, the spectra, freed of theirs,
their number and scale, and the weight; high edges cost less than in proportion to their height; and any separable blur
will do, for nothing is done in the Fourier domain.

The scene is Z S', maps Z (I, J, P) and spectra S (K, P). Every band is divided by its noise σ, so that a misfit of 1 is
one standard deviation. With S = diag(σ_H) F the most probable maps minimise

    ½ ‖Y_H − (P Z) F'‖² + ½ ‖Y_M − Z R'‖² + λ TV(Z),     P = P1 ⊗ P2,  R = diag(1/σ_M) PM S.                    (1)

TV couples the maps, so that they share their edges: total variation for steps of the size of noise, the root of the
step for high ones (kernels/map_steps.py has the price of an edge). It is bounded by reweighted squares, and each
quadratic is solved by preconditioned conjugate gradients. Light multiplies what is in a scene, so that shadow and water
have small steps: with b the brightness of a pixel in the rough maps and r that of the scene, root mean square, steps
cost sqrt(1 + (r/5b)²) times as much, if there is noise. Nothing changes where b is near r, or brighter; what is dark
keeps its spectrum, and what all of it has beside the spectra of the maps is added in the end (`shades.py`).

F   spans the HSI's leading singular vectors (`subspace.py`); then, once the maps are roughly known, the spectra that
    belong to P Z, freed of their noise.
λ   is the one of least estimated risk. Stein's unbiased estimate of Σ (fit − truth)²/σ² over all data is

        χ² − N + 2 tr(∂fit/∂data),                                                                          (2)

    and the trace is had from a second fit to data with a known disturbance added: <change of fit, disturbance>. (One
    linear system with the Hessian at the fitted maps is cheaper, but finds up to an eighth more at 10 dB: λ is then one
    step too strong on four of ten scenes, and the image up to 0.46 dB worse.) Both fits follow λ downwards from strong
    smoothing, each from the one before, until the estimate rises; of a large scene in windows (`windows.py`). Steps of
    the path are wide: the λ that is taken is where a parabola through the last three is least. The second fit begins
    where χ² comes down to its expectation: before, the estimate cannot but fall. σ is no less than a floor, and more
    than the noise where spectra leave something unexplained. Of noise that has only the share τ of σ²
    the estimate of the same risk is

        χ² + τ (2 tr(∂fit/∂data) − N),                                                                      (3)

    by which λ is chosen: without noise, the weakest, to which there is no need for a way.

Once λ is chosen, maps that the MSI does not see are led by what it sees (`unseen_maps.py`), and the fit goes on from
there to its end.
"""

from functools import partial
from itertools import islice

import numpy as np

from ..model.empty_bands import bands_between
from ..model.problem import Problem
from ..model.result import Status
from ..model.types import Array, Callback
from ..threads import thread_map
from .expected_error import expected_error
from .map_data import Blur, MapData, WhitenedImage
from .map_fit import MapFit
from .map_path import REWEIGHTINGS, MapPath, weight_of_least_risk
from .map_system import MapSystem
from .missing_detail import missing_detail, unmapped
from .moments import complete, pixels_of
from .noise import Noise, noise_of
from .shades import shades_of
from .subspace import Subspace, known_noise, scaled, spectra_of, subspace_of
from .unseen_maps import UnseenMaps
from .watch import Stopped, Watch
from .windows import Probed, windows_of

# λ in units of sqrt(largest eigenvalue of R'R), the inverse of the noise of the map that the MSI sees best: where the
# path begins, by what it goes on, where it ends.
STRONGEST, STEP, WEAKEST = 2.83, 0.6, 0.07

# Where χ² is more than this part of its expectation, and less than this part of what it was one λ before, maps are too
# smooth, whatever their degrees of freedom: on seven scenes χ² of the chosen λ was 0.998 of its expectation at most.
TOO_SMOOTH, STILL_FALLS = 1.1, 0.97

# Where noise is a smaller part of σ² than this, χ² decides (3) at every λ, and the path has its last one alone.
_NO_NOISE = 1e-3

# Where it is a smaller part than this, steps of dark pixels are not taken for it.
_NOISY = 1e-3

# Reweighted squares of each λ where the rough maps are too smooth: there is little noise, and edges stand out of it.
_FEWER_REWEIGHTINGS = 2

# What further squares of a λ are solved to, at least: there, where each λ is only a step; and without noise, where
# there is one.
_LOOSE, _LESS_LOOSE = 0.6, 0.35

# So many more reweighted squares for the chosen λ, as long as they change anything.
MOST_REWEIGHTINGS = 50

# Maps have converged if the last reweighting changed their objective by less than this part of it.
SETTLED = 1e-3

# Strength of the first, quadratic smoothing, and of the total variation that the spectra are found with.
FIRST, FOR_SPECTRA = 8.0, 1.6


def fit_maps(
    problem: Problem,
    noise: Noise | None = None,
    subspace: Subspace | None = None,
    *,
    errors: bool = True,
    spectra: Array | None = None,
    weight: float | None = None,
    max_iter: int | None = None,
    callback: Callback | None = None,
    time_limit: float | None = None,
) -> MapFit:
    """Fit maps to the two images of a problem, every weight from the data.

    The weight λ is the one of least estimated risk, unless it is given.

    Parameters
    ----------
    problem : Problem
    noise : Noise, optional
        Of `noise_of(problem)`, which is what is taken otherwise.
    subspace : Subspace, optional
        Of `subspace_of(problem, noise)`, which is what is taken otherwise.
    errors : bool
        Whether expected errors are asked for, which take as long as a few steps of the path.
    spectra : (bands, P) array, optional
        F, where it is known already, of the whole of a scene of which this is a part.
    weight : float, optional
        λ, where it is known already. Risk and degrees of freedom, which it would be found by, are then NaN.
    max_iter : int, optional
        The most steps down the path of λ.
    callback : callable(Progress) -> bool, optional
        Called after each λ, and ten times a second; True ends the fit with what there is.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    MapFit
        Maps and spectra, the weight and its risk, and how the fit ended.

    Examples
    --------
    >>> from fastccpd import Problem, estimation
    >>> from fastccpd.imaging import add_noise, degrade, preset, scenes
    >>> scene, degradation = scenes.synthetic((64, 60, 40)).cube, preset("stereo", (64, 60, 40))
    >>> images = [add_noise(image, 20.0, rng=0) for image in degrade(scene, degradation)]
    >>> fit = estimation.fit_maps(Problem(*images, degradation))
    >>> fit.Z.shape[:2], fit.S.shape[0], fit.status.converged
    ((64, 60), 40, True)
    """
    noise = noise_of(problem) if noise is None else noise
    subspace = subspace_of(problem, noise) if subspace is None else subspace
    watch = Watch("tv-maps", callback, time_limit)
    return _Fit(problem, noise, subspace, watch, errors).run(max_iter, spectra, weight)


def rough_maps(problem: Problem, noise: Noise, subspace: Subspace) -> Array:
    """The (I, J, P) maps that spectra are found from: smooth ones, then two steps of total variation.

    Parameters
    ----------
    problem : Problem
        A scene, or a part of one.
    noise : Noise
    subspace : Subspace
    """
    return _Fit(problem, noise, subspace, Watch("rough maps"), errors=False).rough()


class _Fit:
    """One fit: the path of λ, and the best of it so far."""

    def __init__(self, problem, noise, subspace, watch, errors):
        self.problem, self.watch, self.errors = problem, watch, errors
        self.differences = noise.differences.divided(subspace.hsi)
        self.unexplained = np.square(subspace.hsi) - np.square(noise.hsi_floored)
        self.known_noise = known_noise(problem, noise, subspace)
        self.brightness2 = _brightness2(noise, subspace)
        self.mismatch = subspace.mismatch
        self.hsi = WhitenedImage(problem.hsi, subspace.hsi, problem.hsi_valid, self.mismatch)
        self.msi = WhitenedImage(problem.msi, subspace.msi, problem.msi_valid)
        self.blur = Blur(problem.degradation)
        every = np.ones(problem.hsi.shape[2], bool)
        self.known = every if problem.hsi_valid is None else problem.hsi_valid.any(axis=(0, 1))
        self.data = self._data(subspace.F)
        self.steps, self.part = [], False
        self.best: tuple[Array, tuple[float, float, float, float], float] | None = None
        self.smoothest: Array | None = None
        self.first, self.reweightings = STRONGEST, REWEIGHTINGS
        while self.known_noise < _NO_NOISE and self.first * STEP > WEAKEST:
            self.first *= STEP
        self.weight = self.first

    def _data(self, F):
        """The quadratic for spectra F. The MSI sees bands that the HSI lacks, so they are filled first."""
        if not self.known.all():
            sigma = self.hsi.sigma[:, None]
            F = bands_between(sigma * F, self.known) / sigma
        return MapData(self.hsi, self.msi, self.blur, self.problem.degradation.PM, F)

    def run(self, max_iter, spectra, weight):
        if spectra is not None:
            self.known[...] = True  # in the scene, if not in this part of it
            self.part = True
            self.data = self._data(spectra)
        self.path, self.max_iter = self._begin(self.data.layout.zeros()), max_iter
        try:
            self._rough_maps()
            if spectra is None:
                self._find_spectra()
            self._weigh_dark_steps(self.data, self.path.Z)
            status = self._follow_the_path(max_iter) if weight is None else self._go_to(weight)
        except Stopped as stopped:
            status = stopped.status
        return self._fitted(status)

    def rough(self):
        """Rough maps, and no more."""
        self.path = self._begin(self.data.layout.zeros())
        self._rough_maps()
        return self.data.layout.maps(self.path.Z)

    def _begin(self, Z):
        return MapPath(MapSystem(self.data, self.watch.pulse), Z)

    def _rough_maps(self):
        self.path.smooth(FIRST)
        self.path.descend(FOR_SPECTRA, reweightings=6)

    def _find_spectra(self):
        """The spectra that belong to rough maps."""
        chosen, fill = complete(self.problem.hsi, self.problem.hsi_valid)
        coarse = pixels_of(self.blur.coarse_of_stack(self.data.layout, self.path.Z), chosen)
        pixels = pixels_of(self.problem.hsi, chosen, fill, dtype=None)
        spectra = spectra_of(coarse, pixels, self.known, self.hsi.sigma)
        rows, F = self.data.layout.rows(self.path.Z), self.data.F
        del self.path, self.data  # their room is needed for the next ones
        self.data = self._data(scaled(spectra, self.differences))
        Z = self.data.carried(rows, F)
        del rows
        self.path = self._begin(Z)

    def _follow_the_path(self, max_iter):
        """Fit one λ after the other until the risk rises; a large scene with the λ that its windows choose."""
        windows = windows_of(self.problem)
        if windows:
            return self._go_to(*self._chosen_by(windows, max_iter))
        path, (chi2, cost) = self.path, self.data.misfit_and_cost(self.path.Z)
        if self.first != STRONGEST or chi2 > TOO_SMOOTH * self.data.size:
            # A path of one λ begins with the rough maps; so does one whose stronger λ would be too smooth, as they are.
            self.reweightings = _FEWER_REWEIGHTINGS
            path.loosest = _LOOSE if self.first == STRONGEST else path.loosest
            while self.weight > FOR_SPECTRA:
                self.weight *= STEP
            if self._seen_step((FOR_SPECTRA, chi2, np.nan, np.inf), cost, np.inf, max_iter):
                return Status.MAX_ITERATIONS
        for found in self._down([Probed(path)], map):
            if self._seen_step(*found, max_iter):
                return Status.MAX_ITERATIONS
        return self._settle(self._least())

    def _seen_step(self, step, cost, change, max_iter):
        """Keep the maps of a λ as the best so far; whether there have been enough of them."""
        path = self.path
        self.smoothest = path.Z.copy() if self.best is None else self.smoothest
        self.best = path.Z.copy(), step, change
        self.watch.iteration(cost, path.system.products)
        path.system.products = 0
        return max_iter is not None and len(self.watch.trace) > max_iter

    def _window(self, rows, columns, problem):
        """A window's path, from the maps that there are."""
        hsi = WhitenedImage(problem.hsi, self.hsi.sigma, problem.hsi_valid, self.mismatch)
        msi = WhitenedImage(problem.msi, self.msi.sigma, problem.msi_valid)
        data = MapData(hsi, msi, Blur(problem.degradation), problem.degradation.PM, self.data.F)
        Z = data.carried(self.data.layout.rows(self.path.Z)[rows, :, columns], self.data.F)
        self._weigh_dark_steps(data, Z)
        return MapPath(MapSystem(data, self.watch.pulse), Z)

    def _weigh_dark_steps(self, data, Z):
        """Let steps of dark pixels cost more, unless there is no noise that they could be taken for."""
        if self.known_noise >= _NOISY:
            data.make_dark_steps_dearer(Z, self.brightness2)

    def _down(self, parts, map_parts):
        """(step, cost, change) of one λ after the other until the risk, by all parts that of the whole, rises."""
        least, share = np.inf, self.data.size / sum(part.data.size for part in parts)
        before, probed = np.inf, self.part  # whose risk at every λ is added to those of other parts
        while self.weight > WEAKEST:
            last = self.weight * STEP <= WEAKEST or len(self.steps) == self.max_iter
            for reweightings in (self.reweightings,) if probed or last else (1, self.reweightings - 1):
                fit = partial(Probed.descend, weight=self.weight, reweightings=reweightings)
                found = np.array(list(map_parts(fit, parts)))
                chi2, cost = (float(part) for part in share * found[:, :2].sum(axis=0))
                # Strong smoothing leaves more than noise: while that falls, so does the risk, and nobody asks by how
                # much. Nor how the maps of such a λ end: they are only on the way.
                falls = chi2 > TOO_SMOOTH * self.data.size and chi2 < STILL_FALLS * before
                if falls:
                    break
            probed, before = probed or last or not falls, chi2
            dof = np.nan
            if probed:
                ask = partial(Probed.degrees_of_freedom, weight=self.weight, reweightings=self.reweightings)
                dof = share * sum(map_parts(ask, parts))
            step = self._step(self.weight, chi2, float(dof))
            self.steps.append(step)
            if self._risk(step) > least:
                return
            least = self._risk(step) if probed else least
            yield step, cost, float(found[:, 2].max())
            self.weight *= STEP

    def _step(self, weight, chi2, dof):
        """A λ, and the risk (2) by it."""
        return weight, chi2, dof, chi2 - self.data.size + 2.0 * (dof + self.data.F.size)

    def _chosen_by(self, windows, max_iter):
        """The λ of least risk in all windows, the degrees of freedom of the whole by them, and if it was cut short.

        Windows are too small for their kernels to be shared among threads: as many are fitted at once as there are.
        """
        limit = None if max_iter is None else max_iter + 1
        with thread_map(self.watch.pulse) as map_windows:
            parts = list(map_windows(lambda window: Probed(self._window(*window)), windows))
            weight, _, dof, _ = [step for step, *_ in islice(self._down(parts, map_windows), limit)][-1]
        if len(self.steps) == limit:
            return weight, dof, Status.MAX_ITERATIONS
        weight = self._least()
        return weight, self._dof_along(0, weight), None

    def _go_to(self, weight, dof=np.nan, status=None):
        """Fit a λ that is known, by the way that leads to it, one reweighting a step, and ask for no risk."""
        path, self.weight = self.path, self.first
        while self.weight > 1.001 * weight:
            path.descend(self.weight, reweightings=1)
            self.smoothest = path.Z.copy() if self.smoothest is None else self.smoothest
            self.weight *= STEP
        self.weight, change = weight, path.descend(weight)
        self.smoothest = path.Z if self.smoothest is None else self.smoothest
        chi2, cost = self.data.misfit_and_cost(path.Z)
        step = self._step(weight, chi2, dof)
        self.steps = self.steps or [step]
        self.best = path.Z, step, change
        self.watch.iteration(cost, path.system.products)
        return status or self._settle(weight, dof)

    def _risk(self, step):
        """(3): the estimated risk as far as the noise was found in the images."""
        _, chi2, dof, _ = step
        return chi2 + self.known_noise * (2.0 * (dof + self.data.F.size) - self.data.size)

    def _least(self):
        """The λ of least risk (3), between those of the path."""
        return weight_of_least_risk([step[0] for step in self.steps], [self._risk(step) for step in self.steps])

    def _dof_along(self, number, value):
        """Degrees of freedom where λ (number 0) or χ² (1) has a value, between the steps of the path."""
        known = np.array([step for step in self.steps if not np.isnan(step[2])])
        return float(np.interp(-value, -known[:, number], known[:, 2]))

    def _settle(self, weight, dof=None):
        """Fit the chosen λ, which is that of the best maps or next to it, until they hardly change."""
        if self.best is None:
            return Status.MAX_ITERATIONS
        Z, (fitted, *_), change = self.best
        path = MapPath(self.path.system, Z)
        path.loosest = path.loosest if self.first == STRONGEST else _LESS_LOOSE
        UnseenMaps(self.data, self.known_noise, self.watch.pulse).lead(Z, self.path.system.r)
        change = np.inf if self.data.led else change
        for _ in range(MOST_REWEIGHTINGS if weight != fitted or change >= SETTLED else 0):
            change = path.descend(weight, reweightings=1)
            if change < SETTLED:
                break
        chi2 = self.data.misfit_and_cost(path.Z)[0]
        # The more reweightings, the closer the fit and the more its degrees of freedom: as they are along the path.
        dof = self._dof_along(1, chi2) if dof is None else dof
        self.best = path.Z, self._step(weight, chi2, dof), change
        return Status.COST_SETTLED if change < SETTLED else Status.MAX_ITERATIONS

    def _fitted(self, status):
        data, error, spectrum = self.data, None, None
        if self.best is None or self.smoothest is None:  # stopped before the first λ was fitted
            Z, change = self.path.Z, np.inf
            (chi2, cost), weight, dof, risk = data.misfit_and_cost(Z), self.weight, np.nan, np.inf
            self.watch.trace.append_cost(cost, self.path.system.products, self.watch.seconds)
        else:
            Z, (weight, chi2, dof, risk), change = self.best
            try:
                if self.errors and status.goes_on_to_next_start:  # nobody has called a halt
                    error, spectrum = self._expected_error(Z, weight, self.smoothest)
            except Stopped as stopped:
                status = stopped.status
        del self.path, self.smoothest  # their room is needed for the copy
        self.data.release()
        maps, spectra = self._with_shades(data.layout.maps(Z))
        risk = max(risk + 2.0 * (spectra.size - data.F.size), dof)
        return MapFit(
            Z=maps,
            S=self.hsi.sigma[:, None] * spectra,
            weight=weight,
            at_end=_end_of_path(weight, self.steps),
            chi2=chi2,
            dof=dof,
            risk=risk,
            path=tuple(self.steps),
            change=change,
            expected_error=error,
            expected_spectrum=spectrum,
            status=status,
            trace=self.watch.trace,
            seconds=self.watch.seconds,
        )

    def _with_shades(self, maps):
        """(I, J, P) maps and their spectra, and beside them those of shades, if there are any."""
        shades = None if self.part or self.best is None else shades_of(maps, self.data)
        if shades is None:
            return maps, self.data.F
        return tuple(np.concatenate(both, axis=-1) for both in zip((maps, self.data.F), shades))

    def _expected_error(self, Z, weight, smoothest):
        path = MapPath(self.path.system, Z)
        path.reweight(weight)
        self.data.release()
        maps = [self.data.layout.view(stack) for stack in (Z, smoothest, self.path.Z)]
        coarse = self.blur.coarse_of_stack(self.data.layout, Z)
        self.watch.pulse()
        missing = missing_detail(maps[0], coarse, self.data, self.differences)
        beyond = unmapped(maps[0], self.data)
        self.watch.pulse()
        noisy = self.known_noise >= _NO_NOISE
        ends = [] if self.data.led else maps[1:]
        return expected_error(maps[0], coarse, ends, path.system, self.unexplained, missing, beyond, noisy)


def _brightness2(noise, subspace):
    """The mean square of the HSI's values without their noise, in units of what they are divided by."""
    squares = np.diag(noise.moments.second) / max(noise.moments.count, 1) - np.square(noise.hsi)
    return max(float(np.mean(squares / np.square(subspace.hsi))), 0.0)


def _end_of_path(weight, steps):
    if weight == STRONGEST:
        return "strongest"
    return "weakest" if weight * STEP <= WEAKEST and steps and steps[-1][0] == weight else None
