"""The kernels' LLVM code, made for a plain 64-bit processor, compiled on for another one: as far as goes without it.

`NUMBA_CPU_NAME=generic FASTCCPD_KERNEL_CACHE=0 python tests/kernels/other_processors.py [TRIPLE] [KERNEL ...]` prints,
for each kernel, its bytes of machine code there and how many fused multiply-adds on vectors it has. Nothing is run.
"""

import json
import re
import sys

import llvmlite.binding as llvm
import numpy as np
from fastccpd.kernels import jit
from scipy import sparse

from fastccpd import kernels

ARM64 = "aarch64-unknown-linux-gnu"
FUSED = r"\bfml[as](?:\.\d\w)?\t\s*v\d+|\bvfn?m(?:add|sub)\w+p[sd]\b"  # of ARM64, by two assemblers, and of x86

rng = np.random.default_rng(0)
tensor, factors = rng.random((5, 4, 3)), [rng.random((n, 2)) for n in (5, 4, 3)]
blocks = np.stack([np.eye(2)] * 5)
CALLS = {
    "gram": lambda: kernels.gram(factors[0]),
    "mttkrp": lambda: kernels.mttkrp_all(tensor, factors),
    "jtj": lambda: kernels.jtj_apply(factors, factors),
    "residual": lambda: kernels.residual_norm2(tensor, factors),
    "reconstruct": lambda: kernels.reconstruct(factors),
    "operator": lambda: kernels.operator_apply(sparse.eye_array(5).tocsr(), factors[0]),
    "cholesky": lambda: kernels.block_solve(kernels.block_cholesky(blocks), np.ones((5, 2))),
}


# How x86 counts references down, which its compiler puts in for good, and what was there before.
_COUNTED = r"%(\S+) = (?:tail )?call i8 @llvm\.x86\.atomic\.sub\.cc\.i64\(ptr (?:\w+ )*(%\S+), i64 1, i32 4\).*"
_PLAIN = (
    r"%was.\1 = atomicrmw sub ptr \2, i64 1 seq_cst\n%last.\1 = icmp eq i64 %was.\1, 1\n%\1 = zext i1 %last.\1 to i8"
)


def compiled_here():
    """{name: LLVM code} of every kernel that was compiled so far, and of the tiles that they call."""
    found = {routine.__name__: routine.compiled.inspect_llvm() for routine in jit.KERNELS}
    code = {name: next(iter(texts.values())) for name, texts in found.items() if texts}
    return code | {f"tiles {place}": tile.inspect_llvm() for place, tile in enumerate(jit._callbacks)}


def compiled_for(triple, code):
    """(bytes of the object, assembly) of LLVM code for another processor."""
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(opt=3)
    text = re.sub(r'^target (datalayout|triple) = ".*"$', "", re.sub(_COUNTED, _PLAIN, code), flags=re.MULTILINE)
    module = llvm.parse_assembly(f'target datalayout = "{machine.target_data}"\ntarget triple = "{triple}"\n{text}')
    module.verify()
    return len(machine.emit_object(module)), machine.emit_assembly(module)


def main(triple=ARM64, *names):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for name in names or CALLS:
        CALLS[name]()
    rows = {}
    for name, code in compiled_here().items():
        size, assembly = compiled_for(triple, code)
        rows[name] = {"bytes": size, "fused": len(re.findall(FUSED, assembly))}
    print(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
