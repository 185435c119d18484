"""Similar patches of an image, by the squared distance of their values: nearest ones in a window, and a greedy path.

Images come as planes (bands, rows, columns). Loops run along the columns of a plane, or along the bands and columns of
a patch's row, so that the compiler can vectorise them; both routines do a part of their work at a time, so that the
caller can look up in between.
"""

import numpy as np

from .jit import kernel
from .scratch import borrow, give_back
from .team import part_of


@kernel
def nearest_patches(team, planes, first, reach, distances, neighbours):
    """The nearest other 3×3 patches of every pixel in some rows, within a window of rows and columns.

    (B,I+2,J+2),(),()->(n,J,T),(n,J,T)
    distances[i,j] are the T least sums of squares between the patch around (first+i, j) and those around other pixels
    at most `reach` rows and columns away, in ascending order, and neighbours[i,j] these pixels, row by row; where there
    are fewer, inf and the pixel itself. `planes` have a border of one pixel.
    """
    B, rows, J = planes.shape[0], planes.shape[1] - 2, planes.shape[2] - 2
    n, _, T = distances.shape
    sums = borrow(J + 2, distances)
    for i in part_of(team, n):
        here = first + i
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
    give_back(sums)


@kernel
def greedy_path(lines, bands, size, reach, heat, uniforms, first, visited, path):
    """Steps of a path over all patches of an image, each to a patch that is near in its values and not visited yet.

    (I,J*B),(),(),(),(),(n),()->(R,C),(N)
    A patch of size[0] rows and size[1] columns begins at each of R × C places, counted row by row, as are the entries
    of `path`. From path[first-1] on, uniforms.size steps are made, each to the nearest patch (sum of squares) at most
    `reach` rows and columns away, or anywhere if none is left there; or, where its uniform number is above
    1 / (1 + exp((d1 - d2) / heat)), d1 and d2 being the two least distances, to the second nearest.
    """
    R, C = visited.shape
    rows, width = size[0], size[1] * bands
    whole = width - width % 4
    for n in range(uniforms.size):
        i, j = path[first + n - 1] // C, path[first + n - 1] % C
        top, bottom, left, right = max(i - reach, 0), min(i + reach + 1, R), max(j - reach, 0), min(j + reach + 1, C)
        one = two = -1
        d1 = d2 = np.inf
        for _ in range(2):
            for k in range(top, bottom):
                for m in range(left, right):
                    if visited[k, m]:
                        continue
                    total = 0.0
                    for r in range(rows):
                        x, y = lines[i + r, j * bands :], lines[k + r, m * bands :]
                        # Four sums at a time, for one would wait for itself.
                        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
                        for c in range(0, whole, 4):
                            s0 += (x[c] - y[c]) * (x[c] - y[c])
                            s1 += (x[c + 1] - y[c + 1]) * (x[c + 1] - y[c + 1])
                            s2 += (x[c + 2] - y[c + 2]) * (x[c + 2] - y[c + 2])
                            s3 += (x[c + 3] - y[c + 3]) * (x[c + 3] - y[c + 3])
                        for c in range(whole, width):
                            s0 += (x[c] - y[c]) * (x[c] - y[c])
                        total += (s0 + s1) + (s2 + s3)
                        if total >= d2:
                            break
                    if total < d1:
                        two, d2 = one, d1
                        one, d1 = k * C + m, total
                    elif total < d2:
                        two, d2 = k * C + m, total
            if one >= 0:
                break
            top, bottom, left, right = 0, R, 0, C
        there = two if two >= 0 and uniforms[n] > 1.0 / (1.0 + np.exp((d1 - d2) / heat)) else one
        visited[there // C, there % C] = True
        path[first + n] = there


@kernel
def gathered_products(team, X, index, Y, out):
    """Sums of products of rows, of which the first are gathered.

    (u,R),(m,s),(s,R)->(m,R)
    out[a] = sum over b of X[index[a,b]] * Y[b].
    """
    m, s = index.shape
    R = Y.shape[1]
    for a in part_of(team, m):
        result = out[a]
        for r in range(R):
            result[r] = 0.0
        for b in range(s):
            x, y = X[index[a, b]], Y[b]
            for r in range(R):
                result[r] += x[r] * y[r]


@kernel
def scattered_products(X, Y, index, out):
    """Products of all rows of two matrices, added up where an index says.

    (m,R),(s,R),(m,s)->(u,R)
    out[index[a,b]] += X[a] * Y[b], in the order of a, then b.
    """
    m, s = index.shape
    R = X.shape[1]
    for a in range(m):
        x = X[a]
        for b in range(s):
            y, result = Y[b], out[index[a, b]]
            for r in range(R):
                result[r] += x[r] * y[r]
