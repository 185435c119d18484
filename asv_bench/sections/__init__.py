"""What `python -m asv_bench.compare` can measure: each section is a function that yields tables as they are done."""

from .backends import backends, nonnegative
from .cold import cold
from .growth import many, memory, scaling, threads
from .kernels import kernels, single
from .maps import maps
from .profile import profile
from .roofline import roofline
from .solvers import solvers

SECTIONS = {
    section.__name__: section
    for section in (
        kernels,
        single,
        roofline,
        profile,
        maps,
        solvers,
        backends,
        nonnegative,
        threads,
        scaling,
        memory,
        many,
        cold,
    )
}
