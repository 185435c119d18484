"""Kernels compiled as wholes, and their helpers as parts of them: what Numba's compiler does twice, done once.

Numba optimises every function that it compiles, helpers too, in three rounds and makes machine code of it; then it
does so again in each of its callers. Nobody calls a helper but the kernels that it becomes a part of: here it stays as
it was translated, and is optimised, and turned into machine code, with the whole kernel. There the first round, which
looks at each function by itself, is left out: the others begin with the same.
"""

import gc
from typing import Any

import numba
from numba import extending
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

# FMA contraction is the only freedom taken: reassociation would change bits, and `nnan` would break isnan. What kernels
# work on belongs to their callers, so references are not counted: code for it would be a sixth of all that is compiled.
FLAGS = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy", "_nrt": False}

# Entrances that nobody uses: kernels are called by Python alone, their helpers by compiled code alone.
NO_C_ENTRANCE = {"no_cfunc_wrapper": True}
_NO_ENTRANCE = NO_C_ENTRANCE | {"no_cpython_wrapper": True}


class _Whole(JITCodeLibrary):
    """The code of a kernel."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout


class _Part(_Whole):
    """The translated code of a helper, to be linked into that of its callers."""

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalized = True

    def get_pointer_to_function(self, name):
        """None: there is no machine code."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self):
        """Whom Numba tells the environment of machine code: nobody, since there is none."""
        return self

    def set_env(self, name, env):
        """Do nothing."""


class WholeCompiler(Compiler):
    """Numba's compiler for kernels."""

    _library = _Whole

    def compile_extra(self, func):
        if self.state.library is None:
            self.state.library = self._library(self.state.targetctx.codegen(), func.__qualname__)
            self.state.library.enable_object_caching()
        # What is compiled of is kept until the end: a sixth of the time would go into looking for garbage among it.
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()


class PartCompiler(WholeCompiler):
    """Numba's compiler for their helpers."""

    _library = _Part


# To a type checker their arguments would be those of the Python source, with the context of an intrinsic among them.
device: Any = numba.njit(**FLAGS, **_NO_ENTRANCE, pipeline_class=PartCompiler)
intrinsic: Any = extending.intrinsic

# For the compiled entrances of others, which allocate: these count references, as Numba does by default.
allocating: Any = numba.njit(**(FLAGS | _NO_ENTRANCE | {"_nrt": True}), pipeline_class=PartCompiler)

# For the few numbers that must be those of the same function in plain Python, to the last bit: no multiply-add. Left
# unsaid, `fastmath` would be the caller's.
exact: Any = numba.njit(**(FLAGS | _NO_ENTRANCE | {"fastmath": False}), pipeline_class=PartCompiler)

# For helpers within innermost loops, where a call would cost more than what it does.
inlined: Any = numba.njit(inline="always", **FLAGS, **_NO_ENTRANCE)
