"""Pictures of what a fusion rests on: the blur that one HSI pixel sees through, and the response of each MSI band."""

import numpy as np

from .. import plots

# Weights of the blur below this part of the largest are not drawn.
_SMALL = 1e-3


def blur_figure(degradation):
    """What the middle pixel of the HSI sees: its weights over MSI pixels, and along rows and columns.

    Parameters
    ----------
    degradation : Degradation

    Returns
    -------
    matplotlib.figure.Figure
    """
    profiles = [_profile(P) for P in (degradation.P1, degradation.P2)]
    ratios = [P.shape[1] / P.shape[0] for P in (degradation.P1, degradation.P2)]
    (rows, down), (columns, right) = profiles
    drawn, axes = plots.figure(1, 2, height=2.8)
    edges = (columns[0] - 0.5, columns[-1] + 0.5, rows[-1] + 0.5, rows[0] - 0.5)
    axes[0, 0].imshow(np.outer(down, right), extent=edges, cmap="viridis")
    half = [ratio / 2 for ratio in ratios]
    square = np.array([(-1, -1), (-1, 1), (1, 1), (1, -1), (-1, -1)]) * half
    axes[0, 0].plot(square[:, 1], square[:, 0], color="white", linewidth=1.0, linestyle="--")
    plots.label(axes[0, 0], title="weights; dashed: the HSI pixel", x="MSI pixels to the right", y="MSI pixels down")
    handles = []
    for n, (places, weights) in enumerate(profiles):
        handles += axes[0, 1].plot(places, weights, **plots.system_style(n), markersize=3.5, linewidth=1.2)
    axes[0, 1].grid(alpha=0.3, linewidth=0.5)
    plots.label(axes[0, 1], title="along each axis", x="MSI pixels from the middle of the HSI pixel", y="weight")
    plots.legend(drawn, handles, ("rows", "columns"))
    return drawn


def response_figure(degradation, wavelengths=None):
    """The weights of the HSI's bands in each band of the MSI.

    Parameters
    ----------
    degradation : Degradation
    wavelengths : (bands,) array, optional
        In nm.

    Returns
    -------
    matplotlib.figure.Figure
    """
    PM = degradation.PM.toarray()
    places = np.arange(1, PM.shape[1] + 1) if wavelengths is None else np.asarray(wavelengths)
    order = np.argsort(places, kind="stable")
    drawn, axes = plots.figure(1, 1, height=2.6)
    handles = []
    for n, row in enumerate(PM):
        look = plots.system_style(n) | {"marker": ""}
        handles += axes[0, 0].plot(places[order], row[order], **look, linewidth=1.2)
    axes[0, 0].grid(alpha=0.3, linewidth=0.5)
    plots.label(axes[0, 0], x="band of the HSI" if wavelengths is None else "wavelength (nm)", y="weight")
    plots.legend(drawn, handles, [f"MSI band {n + 1}" for n in range(len(PM))])
    return drawn


def _profile(P):
    """The weights of the middle row of an operator, and where they lie from the middle of its coarse pixel."""
    number, ratio = P.shape[0] // 2, P.shape[1] / P.shape[0]
    row = P[[number]].toarray()[0]
    seen = np.flatnonzero(np.abs(row) > _SMALL * np.abs(row).max(initial=0.0))
    places = np.arange(seen[0], seen[-1] + 1) if seen.size else np.arange(1)
    return places - (number + 0.5) * ratio + 0.5, row[places]
