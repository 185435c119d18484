"""Kernels compiled as wholes, and their helpers as parts of them: what Numba's compiler does twice, done once.

Numba optimises every function that it compiles, helpers too, in three rounds and makes machine code of it; then it
does so again in each of its callers. Nobody calls a helper but the kernels that it becomes a part of: here it stays as
it was translated, and is optimised, and turned into machine code, with the whole kernel. There the first round, which
looks at each function by itself, is left out: the others begin with the same.
"""

import gc
from typing import Any

import numba
from llvmlite.binding import Linkage
from numba import extending
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.typed_passes import InlineOverloads, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

# FMA contraction is the only freedom taken: reassociation would change bits, and `nnan` would break isnan. What kernels
# work on belongs to their callers, so references are not counted: code for it would be a sixth of all that is compiled.
FLAGS = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy", "_nrt": False}

# Entrances that nobody uses: kernels are called by Python alone, their helpers by compiled code alone.
NO_C_ENTRANCE = {"no_cfunc_wrapper": True}
_NO_ENTRANCE = NO_C_ENTRANCE | {"no_cpython_wrapper": True}


# There are no closures in kernels, no expressions of whole arrays, and nobody's overloads ask to be inlined.
_UNNEEDED = (InlineClosureLikes, InlineOverloads, NopythonRewrites)


class _Whole(JITCodeLibrary):
    """The code of a kernel."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def add_linking_library(self, library):
        """With all that it calls in turn: a part holds its own code alone."""
        if library not in self._linking_libraries:
            super().add_linking_library(library)
            if isinstance(library, _Part):
                for further in library._linking_libraries:
                    self.add_linking_library(further)


class _Part(_Whole):
    """The translated code of a helper, to be linked into that of its callers."""

    def finalize(self):
        """Nothing is linked, optimised or checked here."""
        self._raise_if_finalized()
        self._finalized = True

    def _get_module_for_linking(self):
        self._ensure_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"
        return self._final_module

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

    def define_pipelines(self):
        """Without the passes that find nothing to do in kernels."""
        pipelines = super().define_pipelines()
        if not self.state.flags.auto_parallel.enabled:
            for pipeline in pipelines:
                pipeline.passes = [step for step in pipeline.passes if step[0] not in _UNNEEDED]
                pipeline.finalize()
        return pipelines

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
