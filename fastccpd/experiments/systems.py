"""The systems of the comparison at their published settings, and ours; and what each rival may be tuned over.

The paper gives ranks and little else: 30 for the coupled CPDs, [12, 12, 12] for coupled Tucker, 6 for the matrix
methods and the block-term decomposition. What it leaves open is the default of the method here: the published one.
"nn-ccpd-nls" stands here twice: with the paper's algorithm, and with the one that is its default here. After the seven
of the paper come those that its introduction names and those that its readers know, at their authors' settings.
"nn-ccpd-auto", "tv-maps" and "auto" are not in the paper; there is nothing to tune about them, and the rank is only the
most that they may take.

A name may be followed by a rank, as in "stereo@10", to run a tensor method at that rank in place of the paper's.

A new system is one entry of the table below, once its method is registered; `tuning` says how its values are searched.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .. import methods
from ..methods.documentation import options as documented_options


@dataclass(frozen=True)
class System:
    """A method at its published settings.

    Attributes
    ----------
    label : str
        What pictures and tables call it.
    method, options
        What `fuse` is given.
    ranks : tuple
        The ranks that tuning tries, before anything else.
    knobs : dict
        Names of options to the values that tuning tries, in order of size where they have one. What it tries first
        stands first. A name may be a tuple of names, whose values are then set together. In a value that is a tuple,
        None leaves what is there.
    tensor : bool
        Whether it is a tensor method, one of those whose rank the third experiment varies.
    steps : dict
        Further knobs, which tuning moves by one value at a time only.
    """

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    ranks: tuple = ()
    knobs: dict[Any, tuple] = field(default_factory=dict)
    tensor: bool = True
    steps: dict[Any, tuple] = field(default_factory=dict)

    def grid(self, steps=False):
        """[(names of options, values)] of all that tuning runs over whole, or of all that it takes by steps."""
        pairs = [*([("rank", self.ranks)] if self.ranks else []), *self.knobs.items()]
        found = self.steps.items() if steps else pairs
        return [((name,) if isinstance(name, str) else name, values) for name, values in found]

    def published(self, name):
        """The published value of an option: what is given here, else the method's default."""
        return (
            self.options[name] if name in self.options else documented_options(methods.get(self.method))[name].default
        )

    def changed(self, options, names, value):
        """`options` with one knob set to a value of its list."""
        values = (value,) if len(names) == 1 else value
        new = dict(options)
        for name, given in zip(names, values):
            now = new.get(name, self.published(name))
            new[name] = merged(given, now) if isinstance(given, tuple) else given
        return new

    def settings(self):
        """The settings that differ from the published one in one knob."""
        found = [self.changed(self.options, names, value) for names, values in self.grid() for value in values]
        return [options for options in found if any(options[name] != self.published(name) for name in options)]

    def at_rank(self, R):
        """The same system at one rank, (R, R, R) where it takes three."""
        rank = (R, R, R) if isinstance(self.published("rank"), tuple) else R
        knobs = {name: values for name, values in self.knobs.items() if name != "rank"}
        options = {**self.options, "rank": rank}
        return replace(self, label=f"{self.label}, R={R}", options=options, ranks=(), knobs=knobs)


def merged(value, now):
    """A tuple in which None stands for what is there now."""
    return tuple(old if new is None else new for new, old in zip(value, now, strict=True))


_PAPERS_ALGORITHM = {"step": "dogleg", "curvature": "gauss-newton"}
_CPD_RANKS = (2, 3, 4, 5, 6, 8, 12, 20, 30, 50, 80)
_OURS = (*_CPD_RANKS, 120), {"compress": (None, "auto"), "max_iter": (3, 10, 30, 100, 400)}

_ALL = {
    "hysure": System(
        "HySure",
        "hysure",
        {"rank": 6},
        knobs={
            "lambda_phi": (5e-6, 5e-5, 5e-4, 2e-3, 0.01, 0.03, 0.06, 0.1, 0.2, 0.5, 1.0),
            "basis": ("vca", "svd"),
            "rank": (2, 4, 6, 8, 10, 13, 16, 20, 25),
            "mu": (5e-5, 5e-4, 5e-3, 0.05, 0.5, 5.0),
        },
        tensor=False,
    ),
    "fuse-sylvester": System(
        "FUSE",
        "fuse-sylvester",
        {"rank": 6},
        knobs={
            "precision": (1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
            "rank": (1, 2, 3, 4, 6, 8, 10, 13, 16, 20),
            "prior": ("gaussian", "ml"),
        },
        tensor=False,
    ),
    "stereo": System(
        "UC-C-CPD-ALS",
        "stereo",
        {"rank": 30},
        _CPD_RANKS,
        {"max_iter": (1, 3, 10, 30, 100), "lam": (0.1, 1.0, 10.0)},
    ),
    "scott": System(
        "UC-C-Tucker",
        "scott",
        {"rank": (12, 12, 12)},
        tuple((None, None, bands) for bands in (1, 2, 3, 4, 6, 8, 12, 16)),
        {"rank": tuple((r, r, None) for r in (3, 4, 6, 8, 12, 16, 24, 32, 40, 60)), "rtol": (1e-10, 1e-2)},
    ),
    "cbtd-apg": System(
        "NN-C-BTD-APG",
        "cbtd-apg",
        {"rank": 6},
        knobs={
            "theta": (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
            "eta": (5e-4, 5e-3, 5e-2, 0.5, 5.0),
            "rank": (2, 3, 4, 6, 10),
            "lam": (0.08, 0.8, 8.0),
            "max_iter": (100, 300, 1000),
        },
    ),
    "uc-ccpd-nls": System(
        "UC-C-CPD-NLS",
        "uc-ccpd-nls",
        {"rank": 30, **_PAPERS_ALGORITHM},
        _CPD_RANKS,
        {"max_iter": (3, 10, 30, 100, 400)},
    ),
    "nn-ccpd-nls:paper": System(
        "NN-C-CPD-NLS, paper's solver", "nn-ccpd-nls", {"rank": 30, **_PAPERS_ALGORITHM}, *_OURS
    ),
    "nn-ccpd-nls": System("NN-C-CPD-NLS", "nn-ccpd-nls", {"rank": 30}, *_OURS),
    "nssr": System(
        "NSSR",
        "nssr",
        knobs={
            ("eta1", "eta2"): ((1e-4, 1e-4), (1e-3, 1e-4), (0.015, 6e-5), (0.06, 1e-4), (0.2, 1e-4), (0.6, 1e-4)),
            "rank": (3, 5, 10, 20, 40, 80, 160),
            "mu": (2e-5, 2e-4, 2e-3, 0.02, 0.2),
            "max_iter": (26, 60),
            "decay": (90.0, 300.0, 1000.0),
            "neighbours": (10, 30),
            "bands": (3, None),
            "output": ("image", "codes"),
        },
        tensor=False,
        steps={"eta2": (1e-5, 6e-5, 1e-4, 1e-3, 0.01)},
    ),
    "nctcp": System(
        "NCTCP",
        "nctcp",
        {},
        (3, 5, 8, 15, 30, 60, 180),
        {
            ("lam", "mu"): ((100.0, 1e-4), (30.0, 1e-3), (10.0, 0.01), (3.0, 0.1), (3.0, 0.3), (1.0, 0.3), (1.0, 1.0)),
            "max_iter": (1, 2, 5, 10, 20),
            "output": ("image", "patches"),
        },
        steps={"lam": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0), "mu": (1e-4, 1e-3, 0.01, 0.1, 0.3, 1.0, 3.0)},
    ),
    "nn-btd-mu": System(
        "NN-BTD-MU",
        "nn-btd-mu",
        {},
        (2, 3, 4, 6, 10),
        {
            "map_rank": (2, 4, 8, 12, 24),
            "max_iter": (20, 100, 300, 999),
            "minvol": (0.0, 0.1, 1.0, 10.0),
            "beta": (1.0, 1.5, 2.0),
        },
    ),
    "nnstf": System(
        "NNSTF",
        "nnstf",
        knobs={
            "clusters": (1, 2, 4, 8, None),
            "ranks": (
                (8, 8, 2, 4),
                (8, 8, 4, 8),
                (8, 8, 8, 8),
                (8, 8, 8, 16),
                (8, 8, 16, 32),
                (8, 8, 24, 64),
            ),
            "eta": (1e-3, 0.01, 0.1, 1.0),
            "rho": (1e-4, 1e-3, 0.01, 0.1),
            "output": ("Z", "X"),
            "parts": ("scene", "msi"),
        },
        tensor=False,
    ),
    "ltmr": System(
        "LTMR",
        "ltmr",
        knobs={
            # The weight suits a penalty and a number of clusters: one by one they would stay where they are.
            ("eta", "mu", "clusters"): (
                (1e-4, 1e-3, 200),
                (1e-3, 1e-3, 200),
                (1e-4, 0.01, 40),
                (0.01, 0.01, 40),
                (0.1, 0.03, 40),
                (1.0, 0.1, 40),
                (3.0, 0.1, 20),
                (10.0, 0.1, 20),
                (30.0, 0.1, 10),
                (100.0, 0.3, 10),
            ),
            "rank": (2, 3, 4, 5, 6, 8, 10, 15, 20, 30),
        },
        tensor=False,
        steps={
            "eta": (1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
            "mu": (1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3, 1.0),
            "clusters": (5, 10, 20, 40, 80, 200),
        },
    ),
    "cnmf": System(
        "CNMF",
        "cnmf",
        {},
        (2, 3, 4, 6, 10, 15, 20, None),
        {"max_iter": (10, 30, 75, 200, 600), "rounds": (1, 3)},
        tensor=False,
    ),
    "gsa": System("GSA", "gsa", {}, knobs={"ridge": (0.0, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)}, tensor=False),
    # Blind: not of the paper, at its rank for coupled Tucker; of spectra as many as any MSI here can tell apart.
    "b-scott": System(
        "Blind C-Tucker",
        "b-scott",
        {"rank": (12, 12, 3)},
        tuple((None, None, bands) for bands in (1, 2, 3, 4, 6)),
        {"rank": tuple((r, r, None) for r in (3, 4, 6, 8, 12)), "blocks": ((1, 1), (2, 2), (4, 4))},
        tensor=False,
    ),
    "nn-ccpd-auto": System("NN-C-CPD-auto", "nn-ccpd-auto", {"rank": "auto"}),
    "tv-maps": System("TV maps", "tv-maps", {}, tensor=False),
    "auto": System("auto", "auto", {"rank": 30}),
}

#: All systems by name, in the order of tables: those of which the method is there.
SYSTEMS: Mapping[str, System] = {name: system for name, system in _ALL.items() if system.method in methods.names()}

#: The names of those that the paper compares.
PAPER = tuple(itertools.islice(SYSTEMS, 8))


#: The names of those that are our own work, and no rivals.
OWN = tuple(name for name in SYSTEMS if SYSTEMS[name].method in ("nn-ccpd-auto", "tv-maps", methods.DEFAULT))


def named(name):
    """The system called `name`, which may end in "@R"."""
    plain, mark, rank = name.partition("@")
    if not is_known(name):
        raise ValueError(
            f"methods: got {name!r}; one of {', '.join(SYSTEMS)} is needed (a tensor method may end in @R)"
        )
    return SYSTEMS[plain].at_rank(int(rank)) if mark else SYSTEMS[plain]


def is_known(name):
    """Whether there is a system of this name; one of another package may have any."""
    plain, mark, rank = name.partition("@")
    if plain not in SYSTEMS or not mark:
        return plain in SYSTEMS
    return SYSTEMS[plain].tensor and rank.isascii() and rank.isdecimal() and int(rank) > 0


def label_of(name):
    """What pictures and tables call a system; one of another package goes by its own name."""
    return named(name).label if is_known(name) else name


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
    """The names in the order of `SYSTEMS`, then by rank; after them those of other packages."""
    order = list(SYSTEMS)

    def place(name):
        plain, _, rank = name.partition("@")
        return (order.index(plain), int(rank or 0), "") if is_known(name) else (len(order), 0, name)

    return sorted(names, key=place)
