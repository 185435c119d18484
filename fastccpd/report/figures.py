"""What the summary and the report of a fusion say beside its cost."""

import numpy as np

# Above this, noise cannot be distinguished from none: scenes have that much detail of their own.
_HARDLY_ANY = 50.0


def snr_name(decibels):
    """What people call a signal-to-noise ratio in dB.

    Parameters
    ----------
    decibels : float

    Returns
    -------
    str
    """
    if decibels > _HARDLY_ANY:
        return f"above {_HARDLY_ANY:g} dB (hardly any noise)"
    if decibels == -np.inf:
        return "nothing but noise"
    return f"{decibels:.1f} dB".replace("-", "−")


def figures_of(result, noise):
    """What the summary of a fusion says beside its cost, names to sentences: noise, what is shown, ranks, starts.

    Parameters
    ----------
    result : FusionResult
    noise : dict or None
        As `fastccpd.estimation.fit.estimated_snr` gives it.

    Returns
    -------
    dict of str to str
    """
    found = {}
    if noise is not None:
        ratios = {name: snr_name(decibels) for name, decibels in noise.items()}
        found["Estimated SNR"] = f"HSI {ratios['hsi']}, MSI {ratios['msi']}"
    fit = result.stages.get("tv-maps")
    if result.shown == "maps" and fit is not None:
        end = "" if fit.at_end is None else f", the {fit.at_end} of its path: the best may lie beyond"
        found["Shown"] = f"{fit.number} maps, weight {fit.weight:.2g} of the noise{end}"
    elif result.shown == "factors" and fit is not None:
        found["Shown"] = f"a decomposition of rank {result.known_factors.rank}"
    if result.effective_rank is not None:
        found["Effective rank"] = f"{result.effective_rank} of {result.options.get('rank', 'the terms')}"
    if len(result.start_costs) > 1:
        low, high = (f"{cost:.4g}" for cost in (min(result.start_costs), max(result.start_costs)))
        shown = f"the mean of {result.combined}" if result.combined > 1 else "that of the lowest"
        found["Starts"] = f"{len(result.start_costs)}, final costs {low} to {high}; the image is {shown}"
    return found
