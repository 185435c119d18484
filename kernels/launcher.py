"""One compiled routine, called by every thread of Numba's pool with the same arguments.

Numba's `parallel=True` cuts a loop out of a function, and compiles it, what calls it and the function anew: three times
what the function itself takes. Here the routine's own machine code is what the threads run, and the rest is one call of
`parallel_for`, the function that every threading layer of Numba has, by its address: so code from the cache needs no
threading layer before it is launched.
"""

from functools import cache

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@cache
def address_of_pool():
    """Where the chosen threading layer has its `parallel_for`; asking Numba for its number of threads has chosen it."""
    return llvm.address_of_symbol("numba_parallel_for")


def launcher_of(function, code):
    """A function (address, threads, arguments of a kernel...) that has all threads call the kernel's `code`."""
    # Written out, since Numba is slow to tell the types of arguments that come as a tuple.
    names = ", ".join(function.__code__.co_varnames[: function.__code__.co_argcount])
    source = f"def {function.__name__}(address, threads, {names}):\n"
    source += f"    if on_all_threads(address, threads, code, ({names},)):\n        raise MemoryError\n"
    namespace = {"on_all_threads": _on_all_threads, "code": code, "__name__": function.__module__}
    exec(compile(source, __file__, "exec"), namespace)
    return namespace[function.__name__]


@intrinsic
def _on_all_threads(typing_context, address, threads, code, arguments):
    """Have Numba's pool, whose `parallel_for` has this address, call `code`; how many of the calls have failed."""
    called = code.get_call_type(typing_context, arguments.types, {})

    def codegen(context, b, signature, args):
        compiled = code.dispatcher.overloads[tuple(called.args)]
        context.add_linking_libs([compiled.library])
        i64, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer] * 4)
        task = ir.Function(b.module, kind, f"{compiled.fndesc.llvm_func_name}.task")
        task.linkage = "internal"
        shared = ir.LiteralStructType([args[3].type, i64])
        on_thread = ir.IRBuilder(task.append_basic_block())
        seen = on_thread.bitcast(task.args[3], shared.as_pointer())
        given = on_thread.load(cgutils.gep_inbounds(on_thread, seen, 0, 0))
        routine = context.declare_function(b.module, compiled.fndesc)
        values = [on_thread.extract_value(given, n) for n in range(len(called.args))]
        status, _ = context.call_conv.call_function(on_thread, routine, called.return_type, called.args, values)
        failed = cgutils.gep_inbounds(on_thread, seen, 0, 1)
        on_thread.atomic_rmw("add", failed, on_thread.zext(status.is_error, i64), "seq_cst")
        on_thread.ret_void()

        zero, one = i64(0), i64(1)
        everything = cgutils.alloca_once(b, shared)
        b.store(args[3], cgutils.gep_inbounds(b, everything, 0, 0))
        b.store(zero, cgutils.gep_inbounds(b, everything, 0, 1))
        calls, step = cgutils.alloca_once(b, i64), cgutils.alloca_once_value(b, zero)
        nothing = cgutils.alloca_once_value(b, ir.Constant(pointer, None))
        b.store(args[1], calls)
        # (function, arrays, sizes, steps, data, inner dimensions, number of arrays, threads)
        launch = ir.FunctionType(ir.VoidType(), [pointer] * 5 + [i64] * 3)
        operands = (b.bitcast(place, pointer) for place in (task, nothing, calls, step, everything))
        b.call(b.inttoptr(args[0], launch.as_pointer()), [*operands, zero, one, args[1]])
        return b.load(cgutils.gep_inbounds(b, everything, 0, 1))

    return types.int64(types.uintp, types.int64, code, arguments), codegen
