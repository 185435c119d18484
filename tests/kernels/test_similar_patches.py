"""The kernels of similar patches against loops over all patches."""

import numpy as np
import pytest
from fastccpd.kernels import patches
from fastccpd.kernels.arrays import readonly


def distances_by_definition(planes, i, j):
    """The squared distance of the 3×3 patch around a pixel to those around all pixels, (I, J)."""
    I, J = planes.shape[1] - 2, planes.shape[2] - 2
    here = planes[:, i : i + 3, j : j + 3]
    return np.array([[np.sum((planes[:, k : k + 3, m : m + 3] - here) ** 2) for m in range(J)] for k in range(I)])


@pytest.mark.parametrize(
    ("shape", "reach", "count"),
    [
        ((2, 9, 7), 3, 4),
        ((1, 5, 11), 18, 10),
        ((3, 1, 6), 2, 3),
        ((1, 6, 1), 1, 5),
        ((2, 1, 1), 4, 2),
        ((1, 4, 4), 0, 2),
    ],
)
def test_nearest_patches_are_those_of_the_window_without_the_pixel_itself(shape, reach, count):
    B, I, J = shape
    planes = np.random.default_rng(0).random((B, I + 2, J + 2))
    distances, neighbours = np.empty((I, J, count)), np.empty((I, J, count), np.int64)
    for start in range(0, I, 2):  # some rows at a time
        part = slice(start, start + 2)
        patches.nearest_patches(readonly(planes), start, reach, distances[part], neighbours[part])
    rows, columns = np.mgrid[:I, :J]
    for i in range(I):
        for j in range(J):
            inside = (abs(rows - i) <= reach) & (abs(columns - j) <= reach) & ((rows != i) | (columns != j))
            all_distances = np.where(inside, distances_by_definition(planes, i, j), np.inf).ravel()
            order = np.argsort(all_distances)[:count]
            found = min(count, int(inside.sum()))
            np.testing.assert_allclose(distances[i, j, :found], all_distances[order][:found], rtol=1e-12)
            np.testing.assert_array_equal(neighbours[i, j, :found], order[:found])
            assert (distances[i, j, found:] == np.inf).all()
            assert (neighbours[i, j, found:] == i * J + j).all()


def path_by_definition(image, size, reach, heat, uniforms):
    I, J, _ = image.shape
    R, C = I - size[0] + 1, J - size[1] + 1
    blocks = {(i, j): image[i : i + size[0], j : j + size[1]] for i in range(R) for j in range(C)}
    path, left = [(0, 0)], set(blocks) - {(0, 0)}
    for u in uniforms:
        i, j = path[-1]
        near = [place for place in sorted(left) if max(abs(place[0] - i), abs(place[1] - j)) <= reach] or sorted(left)
        near = sorted((np.sum((blocks[place] - blocks[i, j]) ** 2), place) for place in near)[:2]
        second = len(near) == 2 and u > 1.0 / (1.0 + np.exp((near[0][0] - near[1][0]) / heat))
        path.append(near[int(second)][1])
        left.remove(path[-1])
    return [i * C + j for i, j in path]


@pytest.mark.parametrize(
    ("shape", "size", "reach"),
    [
        ((8, 9, 2), (3, 3), 20),
        ((12, 7, 1), (5, 5), 1),
        ((7, 6, 3), (2, 4), 2),
        ((5, 5, 7), (5, 5), 3),
        ((6, 1, 2), (2, 1), 1),
    ],
)
@pytest.mark.parametrize("heat", [1e-3, 0.1, 1e3])
def test_the_path_visits_all_patches_each_time_one_of_the_two_nearest(shape, size, reach, heat):
    rng = np.random.default_rng(1)
    image = rng.random(shape)
    grid = shape[0] - size[0] + 1, shape[1] - size[1] + 1
    uniforms, path, visited = rng.random(np.prod(grid) - 1), np.zeros(np.prod(grid), np.int64), np.zeros(grid, bool)
    visited[0, 0] = True
    lines, sizes = readonly(image.reshape(shape[0], -1)), readonly(np.array(size))
    for first in range(1, len(path), 5):  # some steps at a time
        steps = readonly(uniforms[first - 1 : first + 4])
        patches.greedy_path(lines, shape[2], sizes, reach, heat, steps, first, visited, path)
    np.testing.assert_array_equal(path, path_by_definition(image, size, reach, heat, uniforms))
    assert sorted(path) == list(range(len(path)))
    assert visited.all()


def test_a_dead_end_goes_on_anywhere():
    """In a window of one patch beside the present one, the path must at times look further."""
    rng = np.random.default_rng(3)
    image, path, visited = rng.random((9, 9, 1)), np.zeros(81, np.int64), np.zeros((9, 9), bool)
    visited[0, 0] = True
    size, uniforms = readonly(np.array([1, 1])), readonly(np.zeros(80))
    patches.greedy_path(readonly(image.reshape(9, 9)), 1, size, 1, 1.0, uniforms, 1, visited, path)
    rows, columns = np.divmod(path, 9)
    steps = np.maximum(np.abs(np.diff(rows)), np.abs(np.diff(columns)))
    assert steps.max() > 1
    assert sorted(path) == list(range(81))


@pytest.mark.parametrize(("u", "m", "s", "R"), [(30, 17, 9, 6), (1, 1, 1, 1), (5, 3, 40, 17)])
def test_products_of_rows_are_gathered_and_scattered_as_by_an_explicit_matrix(u, m, s, R):
    rng = np.random.default_rng(2)
    X, Y, Z = rng.standard_normal((u, R)), rng.standard_normal((s, R)), rng.standard_normal((m, R))
    index, out = rng.integers(0, u, (m, s), np.int32), np.full((m, R), np.nan)
    patches.gathered_products(*map(readonly, (X, index, Y)), out)
    np.testing.assert_allclose(out, np.einsum("abr,br->ar", X[index], Y), rtol=1e-12, atol=1e-12)
    before = rng.standard_normal((u, R))
    total, expected = before.copy(), before.copy()
    patches.scattered_products(*map(readonly, (Z, Y, index)), total)
    np.add.at(expected, index, Z[:, None] * Y)
    np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-12)
