"""What `fuse` takes is no more than `memory_needed` says, and what the machine does not have is refused."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import fastccpd
from fastccpd import machine, methods
from fastccpd.testing import small_case

# The kernel counts the pages of a process on each core by itself, and sums these counts now and then.
COUNTING = 12e6

# What the allocator keeps of these methods' phases is more than that only in a larger scene.
IN_PHASES = ("scott", "hysure", "fuse-sylvester")

# These take long: groups of patches, and thirty maps.
IN_GROUPS = ("nctcp", "tv-maps", "nn-ccpd-auto", "auto")

CHILD = """
import sys, warnings
import numpy as np, fastccpd
from fastccpd.imaging import gaussian, response_from_groups
from fastccpd.kernels import jit

def memory(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

def case(n, K, bands):
    rng, P = np.random.default_rng(0), gaussian((n, n), 4)[0]
    PM = response_from_groups(np.array_split(np.arange(K), bands), K)
    # More materials than there can be maps, which no shape can tell.
    spectra = 0.1 + rng.random((K, 36))
    maps = np.kron(rng.random((n // 8, n // 8, 36)), np.ones((8, 8, 1)))
    seen = np.stack([P @ maps[:, :, r] @ P.T for r in range(36)], axis=2)
    hsi, msi = seen @ spectra.T, maps @ (PM @ spectra).T
    return hsi + 0.001 * rng.standard_normal(hsi.shape), msi, fastccpd.Degradation(P, P, PM)

warnings.simplefilter("ignore")
method, n, K, bands = sys.argv[1], *map(int, sys.argv[2:])
brief = {"max_iter": 2} if "max_iter" in fastccpd.methods.get(method).option_names() else {}
few = {"rank": 3} if "rank" in fastccpd.methods.get(method).option_names() else {}
with jit.sharing_all_work():  # loads what is loaded once, twins for several threads too
    fastccpd.fuse(*case(32, 16, 4), method=method, **brief, **few)
images = case(n, K, bands)
before = memory("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins anew
fastccpd.fuse(*images, method=method, **brief)
print(memory("VmHWM") - before, fastccpd.memory_needed(*images[:2], method=method, **brief))
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="for a kernel that counts peaks anew")
@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="for compiled kernels")
@pytest.mark.parametrize("method", methods.names())
def test_the_estimate_bounds_the_memory_of_a_process(method):
    sizes = ("512", "200", "8") if method in IN_PHASES else ("256", "100", "8")
    sizes = ("128", "100", "8") if method in IN_GROUPS else sizes
    command = [sys.executable, "-c", CHILD, method, *sizes]
    for _ in range(2):  # the first one may compile kernels, which takes far more
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        peak, estimate = map(int, done.stdout.split())
        if peak <= estimate + COUNTING:
            break
    assert peak <= estimate + COUNTING
    assert estimate <= 1.5 * peak + COUNTING


LIMITED = """
import resource, sys
import fastccpd
from fastccpd import machine
from fastccpd.testing import small_case
fastccpd.fuse(*small_case(), method="scott", rank=3)
free, large = machine.available_memory(), small_case((256, 256, 256))
with open("/proc/self/statm") as figures:
    used = int(figures.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
print(free, machine.available_memory())
try:
    fastccpd.fuse(*large, method="scott", rank=3)
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="for a system that says how much a process has")
def test_a_limit_of_the_address_space_counts():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    figures, refusal = done.stdout.splitlines()
    free, limited = map(int, figures.split())
    assert limited <= 100 << 20 < free
    assert "'scott' with these options needs about 0.2 GB" in refusal
    assert "the rendered result" in refusal


def write(root, files):
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


GB = 1 << 30
MEMINFO = {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {8 * GB // 1024} kB\n"}
V2 = {"proc/self/cgroup": "0::/user/one\n"}
V1 = {"proc/self/cgroup": "5:cpu:/\n3:memory:/jobs/one\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (MEMINFO, 8 * GB),
        (
            {
                **V2,
                "sys/fs/cgroup/user/one/memory.max": f"{3 * GB}\n",
                "sys/fs/cgroup/user/one/memory.current": f"{GB}\n",
            },
            2 * GB,
        ),
        (
            {
                **V2,
                "sys/fs/cgroup/user/one/memory.max": "max\n",
                "sys/fs/cgroup/user/memory.max": f"{4 * GB}\n",
                "sys/fs/cgroup/user/memory.current": f"{GB}\n",
            },
            3 * GB,
        ),
        (
            {
                **V2,
                "sys/fs/cgroup/user/one/memory.max": f"{3 * GB}\n",
                "sys/fs/cgroup/user/one/memory.current": f"{2 * GB}\n",
                "sys/fs/cgroup/user/one/memory.stat": f"anon 5\ninactive_file {GB}\n",
            },
            2 * GB,
        ),
        (
            {
                **V1,
                "sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes": f"{5 * GB}\n",
                "sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes": f"{GB}\n",
            },
            4 * GB,
        ),
        # In a container the group's own path is not there, and its limit lies at the root.
        (
            {
                **V1,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{5 * GB}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{4 * GB}\n",
            },
            GB,
        ),
        ({**V2, "sys/fs/cgroup/memory.max": f"{GB}\n", "sys/fs/cgroup/memory.current": f"{2 * GB}\n"}, 0),
        ({**V2, "sys/fs/cgroup/memory.max": "nonsense\n"}, 8 * GB),
    ],
    ids=["none", "v2", "v2 above", "v2 with file cache", "v1", "v1 in a container", "v2 used up", "no number"],
)
def test_limits_of_control_groups_count(files, expected, tmp_path):
    assert machine.available_memory(write(tmp_path, MEMINFO | files)) == expected


def test_a_system_that_says_nothing_has_no_limit(tmp_path):
    assert machine.available_memory(tmp_path) in (None, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@pytest.mark.parametrize(
    ("method", "options", "large"),
    [
        ("auto", {}, "maps in float32"),
        ("tv-maps", {}, "maps in float32"),
        ("scott", {"rank": 3}, "the rendered result"),
        ("nn-ccpd-nls", {"rank": 40}, "the rank of 40"),
        ("stereo", {"rank": 40}, "the rank of 40"),
        ("nn-ccpd-nls", {"rank": 1}, "factors in float64"),
    ],
)
def test_the_refusal_names_what_is_large(method, options, large, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    shape = (96, 144, 16) if method == "auto" else (32, 48, 64)
    sentence = rf"{method}.* needs about .* GB .*, most of it for {large}, but .*"
    with pytest.raises(MemoryError, match=sentence) as refusal:
        fastccpd.fuse(*small_case(shape), method=method, **options)
    assert ("rank" in str(refusal.value)) == ("rank" in large)


def test_what_does_not_fit_is_refused_before_operators_are_estimated():
    """The images take no memory themselves: one number stands for all."""
    images = [np.broadcast_to(np.float32(1.0), shape) for shape in ((10**5, 10**5, 100), (4 * 10**5, 4 * 10**5, 4))]
    with pytest.raises(MemoryError, match="'gsa' with these options needs about .* GB beside the images"):
        fastccpd.fuse(*images, method="gsa")
