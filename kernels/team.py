"""How several threads run one kernel: every one of them the same machine code, told which of how many it is.

A kernel that shares its work takes a `team` as its first argument: (this thread's number, how many there are, counts
of `sharing.py`). It loops over its own part of the rows by ``for i in part_of(team, rows)``, or takes pieces of a stage
as they come. What Python calls is an entrance with the address of a launcher and a number of threads in front of the
kernel's own arguments. Without a launcher it calls the kernel as a team of one. With it, arguments are put where all
threads find them, and the launcher, the one place where Numba is asked for parallel code, has each thread call the
kernel.

So a kernel is compiled once, where Numba's own `parallel=True` would compile a second form of it, at three times the
cost of the serial one.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

from .parts import allocating, device, intrinsic

# Stages of a launch, each with counts on a cache line of its own: more than any kernel has but `newton_step`.
STAGES, APART = 64, 8

_COUNTS = types.Array(types.int64, 2, "C")
_TEAM = types.Tuple((types.int64, types.int64, _COUNTS))
_INT, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
_SHARE = ir.FunctionType(ir.VoidType(), [_BYTES, _INT, _INT])


@device
def part_of(team, count):
    """The part of `count` rows that this thread of the team has: an equal share of neighbours."""
    return range(count * team[0] // team[1], count * (team[0] + 1) // team[1])


@device
def in_rear(team):
    """Whether a thread is of the second half, and takes its work from the back."""
    return 2 * team[0] >= team[1]


@allocating
def alone():
    """A team of one, for kernels that are called by compiled code."""
    return 0, 1, np.zeros((STAGES, APART), np.int64)


def _team(context, b, number, threads, counts):
    """The LLVM value of a team; `counts` is a pointer."""
    array = make_array(_COUNTS)(context, b)
    whole = [context.get_constant(types.intp, n) for n in (STAGES, APART, 8 * APART, 8)]
    populate_array(array, counts, whole[:2], whole[2:], whole[3], None)
    return context.make_tuple(b, _TEAM, (number, threads, array._getvalue()))


@intrinsic
def _call(typing_context, kernel, launcher, threads, args):
    """kernel(team, *args), by a team of `threads` where there is a launcher."""
    of_kernel = kernel.get_call_type(typing_context, (_TEAM, *args), {})

    def codegen(context, b, signature, values):
        compiled = kernel.dispatcher.overloads[of_kernel.args]
        context.active_code_library.add_linking_library(compiled.library)
        function = context.declare_function(b.module, compiled.fndesc)

        def call(b, number, threads, counts, arguments):
            team = _team(context, b, number, threads, counts)
            # Called in two places, but one copy of it is enough.
            call = context.call_conv.call_function
            return call(b, function, types.none, of_kernel.args, [team, *arguments], attrs=("noinline",))[0]

        _, launcher, threads, packed = values
        arguments = cgutils.unpack_tuple(b, packed)
        counts = cgutils.alloca_once(b, ir.ArrayType(_INT, STAGES * APART))
        cgutils.memset(b, counts, ir.Constant(_INT, 8 * STAGES * APART), 0)
        kept = ir.LiteralStructType([counts.type, *(value.type for value in arguments)])
        with b.if_else(b.icmp_signed("==", launcher, ir.Constant(_INT, 0))) as (by_itself, by_all):
            with by_itself:
                first = b.gep(counts, [ir.Constant(_INT, 0)] * 2)
                status = call(b, ir.Constant(_INT, 0), ir.Constant(_INT, 1), first, arguments)
                with cgutils.if_unlikely(b, status.is_error):
                    context.call_conv.return_status_propagate(b, status)
            with by_all:
                room = cgutils.alloca_once(b, kept)
                for n, value in enumerate((counts, *arguments)):
                    b.store(value, cgutils.gep_inbounds(b, room, 0, n))
                share = _share_of(b.module, f"share.{compiled.fndesc.llvm_func_name}", kept, call)
                launch = b.inttoptr(launcher, ir.FunctionType(ir.VoidType(), [_INT, _INT, _INT]).as_pointer())
                b.call(launch, [b.ptrtoint(share, _INT), b.ptrtoint(room, _INT), threads])
        return context.get_dummy_value()

    return types.void(kernel, types.int64, types.int64, args), codegen


def _share_of(module, name, kept, call):
    """The function that a thread of the team calls: (where arguments are kept, its number, how many threads)."""
    function = ir.Function(module, _SHARE, name)
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block())
    room, number, threads = function.args
    room = b.bitcast(room, kept.as_pointer())
    counts, *arguments = (b.load(cgutils.gep_inbounds(b, room, 0, n)) for n in range(len(kept.elements)))
    call(b, number, threads, b.gep(counts, [ir.Constant(_INT, 0)] * 2), arguments)
    b.ret_void()
    return function


@intrinsic
def _share(typing_context, function, room, number, threads):
    """Call what `_share_of` made, at an address."""

    def codegen(context, b, signature, args):
        function, room, number, threads = args
        b.call(b.inttoptr(function, _SHARE.as_pointer()), [b.inttoptr(room, _BYTES), number, threads])
        return context.get_dummy_value()

    n = types.int64
    return types.void(n, n, n, n), codegen


def launch(function, room, threads):
    """Have each of so many threads call a function with its own number."""
    for number in numba.prange(threads):
        _share(function, room, number, threads)


def entrance(function, kernel):
    """A Python function (launcher, threads, *arguments of the kernel but the team) that calls the kernel, to compile.

    `function` is the kernel's source, whose file and name the entrance takes, `kernel` what was compiled of it.
    """
    names = ", ".join(function.__code__.co_varnames[1 : function.__code__.co_argcount])
    source = f"def {function.__name__}(launcher, threads, {names}):\n    call(kernel, launcher, threads, ({names},))\n"
    known = {"call": _call, "kernel": kernel, "__name__": function.__module__}
    exec(compile(source, function.__code__.co_filename, "exec"), known)
    return known[function.__name__]
