"""Kernels compiled as wholes, and their helpers as parts of them: what Numba's compiler does twice, done once.

Numba optimises every function that it compiles, helpers too, in three rounds and makes machine code of it; then it
does so again in each of its callers. Nobody calls a helper but the kernels that it becomes a part of: here it stays as
it was translated, and is optimised, and turned into machine code, with the whole kernel. There the first round, which
looks at each function by itself, is left out: the others begin with the same.
"""

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Whole(JITCodeLibrary):
    """The code of a kernel."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout


class _Part(_Whole):
    """The translated code of a helper, to be linked into that of its callers."""

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
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
        return super().compile_extra(func)


class PartCompiler(WholeCompiler):
    """Numba's compiler for their helpers."""

    _library = _Part
