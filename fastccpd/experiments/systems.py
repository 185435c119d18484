"""The seven systems of the paper's comparison, at its settings, and ours; and what each rival may be tuned over.

The paper gives ranks and little else: 30 for the coupled CPDs, [12, 12, 12] for coupled Tucker, 6 for the matrix
methods and the block-term decomposition. What it leaves open is the default of the method here: the published one.
Rivals that the paper does not compare ("ltmr", "cnmf", "gsa") are at their authors' settings.
"nn-ccpd-nls" stands here twice: with the paper's algorithm, and with the one that is its default here. "nn-ccpd-auto"
is not in the paper; there is nothing to tune about it, and its rank is only the most that it may take.

A name may be followed by a rank, as in "stereo@10", to run a tensor method at that rank in place of the paper's.

Tuning means: every setting of a grid is run on every image, and the one with the best R-SNR *against the truth* counts.
No user has the truth, so that is an upper bound on what careful hands could reach, not a result.
"""

import itertools
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class System:
    """A method at the paper's settings.

    Attributes
    ----------
    label : str
        What pictures and tables call it.
    method, options
        What `fuse` is given.
    ranks : tuple
        The ranks that tuning tries.
    knobs : dict
        Names of other options to the values that tuning tries, all with all.
    tensor : bool
        Whether it is a tensor method, one of those whose rank the third experiment varies.
    """

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    ranks: tuple = ()
    knobs: dict[str, tuple] = field(default_factory=dict)
    tensor: bool = True

    def settings(self):
        """Every setting that tuning tries, the paper's other options kept."""
        if not (self.ranks or self.knobs):
            return []
        grid = {"rank": self.ranks or (self.options["rank"],), **self.knobs}
        return [{**self.options, **dict(zip(grid, values))} for values in itertools.product(*grid.values())]

    def at_rank(self, R):
        """The same system at one rank, (R, R, R) where it takes three."""
        rank = (R, R, R) if isinstance(self.options["rank"], tuple) else R
        return replace(self, label=f"{self.label}, R={R}", options={**self.options, "rank": rank}, ranks=())


_PAPERS_ALGORITHM = {"step": "dogleg", "curvature": "gauss-newton"}
_LOW_RANKS = (2, 3, 4, 5, 6, 8, 12)

SYSTEMS = {
    "hysure": System(
        "HySure", "hysure", {"rank": 6}, (6,),
        {"basis": ("vca", "svd"), "lambda_phi": (0.003, 0.01, 0.03, 0.056, 0.1, 0.18, 0.3, 0.56)}, tensor=False,
    ),
    "fuse-sylvester": System(
        "FUSE", "fuse-sylvester", {"rank": 6}, (1, 2, 3, 4, 6), {"precision": (1e-3, 0.1, 0.3, 1.0, 3.0)}, tensor=False,
    ),
    "stereo": System("UC-C-CPD-ALS", "stereo", {"rank": 30}, _LOW_RANKS, {"max_iter": (1, 10)}),
    "scott": System(
        "UC-C-Tucker", "scott", {"rank": (12, 12, 12)},
        tuple((r, r, bands) for r in (3, 4, 6, 8, 12, 16, 24) for bands in (1, 2, 3, 4)), {"rtol": (1e-10, 1e-2)},
    ),
    "cbtd-apg": System(
        "NN-C-BTD-APG", "cbtd-apg", {"rank": 6}, (3, 6), {"theta": (1e-4, 1e-2, 1e-1), "eta": (5e-3, 0.5)},
    ),
    "ltmr": System(
        "LTMR", "ltmr", {"rank": 10}, (2, 3, 4, 6, 10, 20),
        {"eta": (1e-4, 0.01, 0.1, 1.0, 10.0, 100.0), "mu": (1e-3, 0.03, 0.1), "clusters": (16, 40, 200)}, tensor=False,
    ),
    "cnmf": System("CNMF", "cnmf", {"rank": 30}, (5, 10, 20, 30), tensor=False),
    "gsa": System("GSA", "gsa", tensor=False),
    "uc-ccpd-nls": System(
        "UC-C-CPD-NLS", "uc-ccpd-nls", {"rank": 30, **_PAPERS_ALGORITHM}, _LOW_RANKS, {"max_iter": (10, 200)},
    ),
    "nn-ccpd-nls:paper": System("NN-C-CPD-NLS, paper's solver", "nn-ccpd-nls", {"rank": 30, **_PAPERS_ALGORITHM}),
    "nn-ccpd-nls": System("NN-C-CPD-NLS", "nn-ccpd-nls", {"rank": 30}),
    "nn-ccpd-auto": System("NN-C-CPD-auto", "nn-ccpd-auto", {"rank": 30}),
    "tv-maps": System("TV maps", "tv-maps", {}, tensor=False),
    "auto": System("auto", "auto", {"rank": 30}),
}  # fmt: skip


def named(name):
    """The system called `name`, which may end in "@R"."""
    plain, mark, rank = name.partition("@")
    known = plain in SYSTEMS and (not mark or (SYSTEMS[plain].tensor and rank.isdecimal() and int(rank) > 0))
    if not known:
        raise ValueError(
            f"methods: got {name!r}; one of {', '.join(SYSTEMS)} is needed (a tensor method may end in @R)"
        )
    return SYSTEMS[plain].at_rank(int(rank)) if mark else SYSTEMS[plain]


def chosen(names=None, ranks=None, tensor_only=False):
    """The names of systems that are meant: all by default; with ranks, each tensor method at each of them."""
    names = tuple(SYSTEMS) if names is None else tuple(names)
    for name in names:
        named(name)
    names = [name for name in names if named(name).tensor or not tensor_only]
    if not names:
        raise ValueError("methods: none of them is a tensor method, which this experiment is about")
    if ranks is None:
        return names
    expanded = [[f"{name}@{R}" for R in ranks] if named(name).tensor and "@" not in name else [name] for name in names]
    return list(dict.fromkeys(itertools.chain(*expanded)))


def in_order(names):
    """The names in the order of `SYSTEMS`, then by rank."""

    def place(name):
        plain, _, rank = name.partition("@")
        return list(SYSTEMS).index(plain), int(rank or 0)

    return sorted(names, key=place)
