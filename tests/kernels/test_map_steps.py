"""Every pass over stacks of maps against its definition, on (I, J, P) arrays and dense operators."""

import numpy as np
import oracle
import pytest
from fastccpd.kernels import map_steps
from fastccpd.kernels.arrays import readonly
from fastccpd.kernels.map_steps import GUARD
from scipy import sparse

from fastccpd.estimation.map_data import compressed_rows, padded_rows
from fastccpd.estimation.map_system import Layout

SHAPES = pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (1, 9, 2), (6, 1, 3), (5, 16, 8), (7, 17, 9), (4, 150, 2)],
    ids="{0[0]} x {0[1]} x {0[2]}".format,
)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def close(found, expected, dtype):
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-30)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=300 * np.finfo(dtype).eps * scale)


class System:
    """A random system on I × J pixels of P maps, dense, and as the passes take it."""

    def __init__(self, shape, dtype, seed=0):
        I, J, P = shape
        rng, self.layout, self.dtype = np.random.default_rng(seed), Layout(I, J, P), dtype
        self.operators = [rng.standard_normal((-(-n // 3), n)) * (rng.random((-(-n // 3), n)) < 0.5) for n in (I, J)]
        self.a = rng.random(P)
        # Planes are float32, whatever the maps are.
        self.ones, self.below, self.right = (rng.random((I, J)).astype(np.float32).astype(float) for _ in range(3))
        self.below[-1], self.right[:, -1] = 0.0, 0.0
        G, self.extras, self.extras_coarse = (rng.standard_normal((n, P, P)) for n in (1, 3, 3))
        self.G = G[0] + G[0].T
        self.odd, self.odd_coarse = (rng.random(n) < 0.3 for n in ((I, J), self.coarse_shape))
        self.kinds, self.kinds_coarse = (rng.integers(0, 3, odd.shape) for odd in (self.odd, self.odd_coarse))
        self.d, self.r, self.Z = (self.rounded(rng.standard_normal(shape)) for _ in range(3))
        self.own, self.share, self.coverage = (rng.random((I, J)).astype(np.float32).astype(float) for _ in range(3))
        for plane in (self.own, self.share, self.coverage):
            plane[0, 0] = 0.0
        self.g = rng.random(P)

    @property
    def coarse_shape(self):
        return tuple(P.shape[0] for P in self.operators)

    def rounded(self, values):
        return values.astype(self.dtype).astype(np.float64)

    def stack(self, maps):
        return readonly(self.layout.stack(maps, self.dtype))

    def plane(self, values):
        return readonly(Layout(*values.shape, 1).stack(values[:, :, None]))

    def entries(self, matrix):
        P = compressed_rows(sparse.csr_array(matrix))
        return tuple(map(readonly, (P.indptr, P.indices, P.data)))

    def pixelwise(self):
        planes = [self.plane(values) for values in (self.ones, self.below, self.right)]
        return readonly(self.a), *planes, places_of(self.odd, self.kinds), readonly(self.extras)

    @property
    def inverse(self):
        """One over the diagonal, zero where there is nothing."""
        diagonal = self.own[:, :, None] + self.share[:, :, None] * self.a + self.coverage[:, :, None] * self.g
        return np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0)

    def diagonal(self):
        return tuple(self.plane(values) for values in (self.own, self.share, self.coverage))

    def coarse(self, maps):
        return np.einsum("ai,bj,ijp->abp", *self.operators, maps)

    def local(self, d):
        """H d but for the blur."""
        out = self.ones[:, :, None] * self.a * d
        for weights, axis in ((self.below, 0), (self.right, 1)):
            D = np.diff(d, axis=axis) * weights[:, :, None].take(range(d.shape[axis] - 1), axis=axis)
            nothing = np.zeros_like(d.take([0], axis=axis))
            out += np.concatenate([nothing, D], axis=axis) - np.concatenate([D, nothing], axis=axis)
        return out + self.odd[:, :, None] * np.einsum("ijpq,ijq->ijp", self.extras[self.kinds], d)


def places_of(odd, kinds):
    """(starts, columns, kinds) of the odd pixels, row by row."""
    rows, columns = np.nonzero(odd)
    return tuple(map(readonly, (np.searchsorted(rows, np.arange(len(odd) + 1)), columns, kinds[rows, columns])))


def by_twos(maps):
    """Sums over 2 × 2 pixels, fewer at the border."""
    I, J, P = maps.shape
    whole = np.pad(maps, ((0, I % 2), (0, J % 2), (0, 0)))
    return whole.reshape(-(-I // 2), 2, -(-J // 2), 2, P).sum(axis=(1, 3))


def doubled(maps, shape):
    """Constant on 2 × 2 pixels."""
    return maps.repeat(2, axis=0).repeat(2, axis=1)[: shape[0], : shape[1]]


@SHAPES
@DTYPES
def test_a_blur_goes_half_the_way_back_and_its_sums_are_the_energy(shape, dtype):
    s = System(shape, dtype)
    I1, _ = s.coarse_shape
    half, sums = Layout(I1, *shape[1:]), np.empty(I1)
    out = half.zeros()
    P1, P2 = s.operators
    compressed = s.entries(P1), s.entries(P2), s.entries(P2.T)
    coarse_odd = places_of(s.odd_coarse, s.kinds_coarse)
    mixing = readonly(padded_rows(s.G)), coarse_odd, readonly(s.extras_coarse)
    map_steps.blur_maps(s.layout.shape, s.stack(s.d), *s.pixelwise(), *compressed, *mixing, out, sums)
    seen = s.coarse(s.d)
    extra = np.einsum("abpq,abq->abp", s.extras_coarse[s.kinds_coarse], seen)
    mixed = seen @ s.G + s.odd_coarse[:, :, None] * extra
    close(half.maps(out), np.einsum("bj,abp->ajp", P2, mixed), np.float32)
    parts = np.sum(s.d * s.local(s.d)), np.sum(seen * mixed)
    size = np.sum(np.abs(s.d * s.local(s.d))) + np.sum(np.abs(seen * mixed))
    assert sums.sum() == pytest.approx(sum(parts), abs=100 * np.finfo(dtype).eps * max(size, 1e-30))


@SHAPES
@DTYPES
@pytest.mark.parametrize("moves", [True, False], ids=["with maps", "residual alone"])
def test_a_step_moves_maps_and_residual_and_sums_it_by_twos(shape, dtype, moves):
    s, alpha = System(shape, dtype), 0.37
    P1 = s.operators[0]
    half, coarse = Layout(len(P1), *shape[1:]), Layout(-(-shape[0] // 2), -(-shape[1] // 2), shape[2])
    blurred = s.rounded(np.random.default_rng(5).standard_normal((len(P1), *shape[1:])))
    Z, r = s.layout.stack(s.Z, dtype) if moves else np.empty(0, dtype), s.layout.stack(s.r, dtype)
    coarser, sums = coarse.zeros(dtype) + 7.0, np.empty(coarse.I)
    map_steps.advance_maps(
        s.layout.shape, alpha, s.stack(s.d), *s.pixelwise(), s.entries(P1.T), readonly(half.stack(blurred, dtype)),
        *s.diagonal(), readonly(s.g), coarse.width, Z, r, coarser, sums,
    )  # fmt: skip
    left = s.r - alpha * (s.local(s.d) + np.einsum("ai,ajp->ijp", P1, blurred))
    close(s.layout.maps(r), left, dtype)
    close(coarse.maps(coarser), by_twos(left), dtype)
    size = np.sum(np.abs(left**2 * s.inverse))
    assert sums.sum() == pytest.approx(np.sum(left**2 * s.inverse), abs=300 * np.finfo(dtype).eps * size)
    if moves:
        close(s.layout.maps(Z), s.Z + alpha * s.d, dtype)
    assert not r[:GUARD].any(), "nothing is written before a stack"
    assert not r[-GUARD:].any(), "nor behind it"


@SHAPES
@DTYPES
def test_a_turn_adds_what_the_preconditioner_gives(shape, dtype):
    s = System(shape, dtype)
    coarse = Layout(-(-shape[0] // 2), -(-shape[1] // 2), shape[2])
    y = s.rounded(np.random.default_rng(6).standard_normal((coarse.I, coarse.J, coarse.P)))
    d = s.layout.stack(s.d, dtype)
    map_steps.turn_maps(
        s.layout.shape,
        *s.diagonal(),
        readonly(s.a),
        readonly(s.g),
        s.stack(s.r),
        readonly(coarse.stack(y, dtype)),
        coarse.width,
        0.8,
        d,
    )
    close(s.layout.maps(d), s.inverse * s.r + doubled(y, shape) + 0.8 * s.d, dtype)


@DTYPES
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 2), (9, 17, 3)], ids="{0[0]} x {0[1]} x {0[2]}".format)
def test_aggregates_are_corrected_level_by_level(shape, dtype):
    rng, layouts = np.random.default_rng(7), [Layout(*shape)]
    while layouts[-1].I * layouts[-1].J > 2:
        layouts.append(Layout(-(-layouts[-1].I // 2), -(-layouts[-1].J // 2), shape[2]))
    starts = GUARD + np.cumsum([0] + [int(np.prod(layout.shape)) for layout in layouts])
    levels = np.array([(start, layout.I, layout.width) for start, layout in zip(starts, layouts)])
    values = [rng.standard_normal(shape).astype(dtype).astype(np.float64)]
    for _ in layouts[1:]:
        values.append(by_twos(values[-1]))
    inverses = [rng.random(value.shape) for value in values]
    r, inverse = (np.zeros(starts[-1] + GUARD, dtype) for _ in range(2))
    for start, layout, scale in zip(starts, layouts, inverses):
        inverse[start : start + np.prod(layout.shape)] = layout.stack(scale, dtype)[GUARD:-GUARD]
    r[starts[0] : starts[1]] = layouts[0].stack(values[0], dtype)[GUARD:-GUARD]
    sums = np.empty(sum(layout.I for layout in layouts))
    map_steps.correct_maps(levels, shape[2], readonly(inverse), r, r, sums)  # y takes the place of r
    above = np.zeros((1, 1, shape[2]))
    for layout, start, value, scale in reversed(list(zip(layouts, starts, values, inverses))):
        above = scale * value + doubled(above, value.shape) if value is not values[-1] else scale * value
        found = np.zeros(2 * GUARD + np.prod(layout.shape))
        found[GUARD:-GUARD] = r[start : start + np.prod(layout.shape)]
        close(layout.maps(found), above, dtype)
    expected = sum(np.sum(value**2 * scale) for value, scale in zip(values, inverses))
    assert sums.sum() == pytest.approx(expected, rel=300 * float(np.finfo(dtype).eps))


def test_a_diagonal_is_inverted_and_nothing_stays_nothing():
    layout, rng = Layout(3, 10, 2), np.random.default_rng(8)
    own, share, coverage = (rng.random((3, 10)) for _ in range(3))
    own[1, 4] = share[1, 4] = coverage[1, 4] = 0.0
    planes = [Layout(3, 10, 1).stack(values[:, :, None], np.float64) for values in (own, share, coverage)]
    a, g, out = rng.random(2), rng.random(2), layout.zeros(np.float64)
    map_steps.invert_diagonal(3, 2, layout.width, GUARD, *planes, a, g, out)
    diagonal = own[:, :, None] + share[:, :, None] * a + coverage[:, :, None] * g
    expected = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0)
    np.testing.assert_allclose(layout.maps(out), expected, rtol=1e-14)


def reweighted(Z, weight, rounding, knee, dtype=np.float64, dearer=1.0):
    """(below, right, rest) of (I, J, P) maps."""
    layout, prices = Layout(*Z.shape), Layout(*Z.shape).zeros(dtype, 1)
    layout.rows(prices)[:, 0] = dearer
    below, right, rest = layout.zeros(np.float64, 1), layout.zeros(np.float64, 1), np.empty(layout.I)
    stack, out = layout.stack(Z, dtype), (below, right, rest)
    map_steps.reweight_maps(layout.shape, layout.J, stack, prices, weight, rounding, knee, *out)
    return layout.rows(below)[:, 0], layout.rows(right)[:, 0], rest


@SHAPES
@DTYPES
def test_weights_of_edges_match_dense_differences(shape, dtype):
    Z = np.random.default_rng(0).standard_normal(shape).astype(dtype).astype(np.float64)
    below, right, rest = reweighted(Z, 0.7, 0.2, 1.5, dtype)
    y = oracle.steps(Z, 0.2)
    expected = 0.7 / (y * np.sqrt(1.0 + y / 1.5))
    np.testing.assert_allclose(below[:-1], expected[:-1], rtol=1e-12)
    np.testing.assert_allclose(right[:, :-1], expected[:, :-1], rtol=1e-12)
    assert not below[-1].any(), "there is no next row"
    assert not right[:, -1].any(), "there is no next column"
    left = 0.7 * oracle.edge_price(y, 1.5) - 0.5 * expected * (y**2 - 0.2**2)
    np.testing.assert_allclose(rest, left.sum(axis=1), rtol=1e-12)


def test_a_dearer_pixel_multiplies_its_weights_and_what_is_left():
    rng = np.random.default_rng(3)
    Z, dearer = rng.standard_normal((5, 11, 3)), 1.0 + rng.random((5, 11))
    below, right, rest = reweighted(Z, 0.7, 0.2, 1.5, dearer=dearer)
    plain = reweighted(Z, 0.7, 0.2, 1.5)
    np.testing.assert_allclose(below, dearer * plain[0], rtol=1e-12)
    np.testing.assert_allclose(right, dearer * plain[1], rtol=1e-12)
    y = oracle.steps(Z, 0.2)
    left = 0.7 * oracle.edge_price(y, 1.5) - 0.35 / (y * np.sqrt(1.0 + y / 1.5)) * (y**2 - 0.2**2)
    np.testing.assert_allclose(rest, (dearer * left).sum(axis=1), rtol=1e-12)


def test_a_weight_is_the_slope_of_the_price_over_the_step():
    y, h = np.linspace(0.1, 40.0, 50), 1e-6
    slope = (oracle.edge_price(y + h, 3.0) - oracle.edge_price(y - h, 3.0)) / (2.0 * h)
    for step, expected in zip(y, slope / y):
        below, _, _ = reweighted(np.array([[[0.0]], [[step]]]), 1.0, 1e-9, 3.0)
        assert below[0, 0] == pytest.approx(expected, rel=1e-6)


def test_the_weights_of_flat_maps_are_the_weight_over_the_rounding():
    below, right, _ = reweighted(np.full((3, 5, 2), 9.0), 0.5, 0.25, 1e300)
    np.testing.assert_array_equal(below[:-1], 2.0)
    np.testing.assert_array_equal(right[:, :-1], 2.0)


@pytest.mark.parametrize("shape", [(7, 13), (8, 16), (1, 1), (2, 9)])
@DTYPES
def test_weights_are_joined_between_aggregates_and_summed_at_each_pixel(shape, dtype):
    layout, rng = Layout(*shape, 1), np.random.default_rng(0)
    wide, (I, J) = layout.joined(), shape
    below, right = (rng.random(shape).astype(np.float32) for _ in range(2))
    below[-1], right[:, -1] = 0.0, 0.0
    planes = [layout.stack(values[:, :, None], dtype) for values in (below, right)]
    own, *joined = layout.zeros(dtype), wide.zeros(dtype), wide.zeros(dtype)
    map_steps.join_weights(I, layout.width, *map(readonly, planes), own, wide.width, *joined)
    expected = below + right
    expected[1:] += below[:-1]
    expected[:, 1:] += right[:, :-1]
    close(layout.maps(own)[:, :, 0], expected, np.float32)
    below, right = (np.pad(values, ((0, I % 2), (0, J % 2))) for values in (below, right))
    close(wide.maps(joined[0])[:, :, 0], below[1::2, ::2] + below[1::2, 1::2], np.float32)
    close(wide.maps(joined[1])[:, :, 0], right[::2, 1::2] + right[1::2, 1::2], np.float32)
