"""Similar patches of an image, by the squared distance of their values: nearest ones in a window, and a greedy path.

Images come as planes (bands, rows, columns). Loops run along the columns of a plane, or along the bands and columns of
a patch's row, so that the compiler can vectorise them; both routines do a part of their work at a time, so that the
caller can look up in between.
"""

import numpy as np
from numba import prange

from .jit import kernel


@kernel
def nearest_patches(planes, first, reach, distances, neighbours):
    """The nearest other 3×3 patches of every pixel in some rows, within a window of rows and columns.

    (B,I+2,J+2),(),()->(n,J,T),(n,J,T)
    distances[i,j] are the T least sums of squares between the patch around (first+i, j) and those around other pixels
    at most `reach` rows and columns away, in ascending order, and neighbours[i,j] these pixels, row by row; where there
    are fewer, inf and the pixel itself. `planes` have a border of one pixel.
    """
    B, rows, J = planes.shape[0], planes.shape[1] - 2, planes.shape[2] - 2
    n, _, T = distances.shape
    for i in prange(n):
        here = first + i
        sums = np.empty(J + 2)
        for j in range(J):
            for t in range(T):
                distances[i, j, t] = np.inf
                neighbours[i, j, t] = here * J + j
        for there in range(max(here - reach, 0), min(here + reach + 1, rows)):
            for shift in range(max(-reach, 1 - J), min(reach, J - 1) + 1):
                if there == here and shift == 0:
                    continue
                start, stop = max(0, -shift), min(J, J - shift)
                for c in range(start, stop + 2):
                    sums[c] = 0.0
                for b in range(B):
                    for r in range(3):
                        x, y = planes[b, here + r], planes[b, there + r]
                        for c in range(start, stop + 2):
                            change = x[c] - y[c + shift]
                            sums[c] += change * change
                for j in range(start, stop):
                    total = sums[j] + sums[j + 1] + sums[j + 2]
                    if total < distances[i, j, T - 1]:
                        place = T - 1
                        while place > 0 and total < distances[i, j, place - 1]:
                            distances[i, j, place] = distances[i, j, place - 1]
                            neighbours[i, j, place] = neighbours[i, j, place - 1]
                            place -= 1
                        distances[i, j, place] = total
                        neighbours[i, j, place] = there * J + j + shift
