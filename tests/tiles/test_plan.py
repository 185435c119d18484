"""Tiles cover a scene, see whole coarse pixels only, and are blended by weights that sum to one."""

import json

import numpy as np
import pytest
from scipy import sparse

from fastccpd import Degradation
from fastccpd.imaging import gaussian
from fastccpd.tiles import Plan, make_plan
from fastccpd.tiles.pieces import piece_of
from fastccpd.tiles.plan import span_of, supports, weights


def blurs(boundary="reflect", shape=(116, 92), ratio=4, **settings):
    settings = {"phase": (ratio - 1) / 2} | settings
    return gaussian(shape, ratio, boundary=boundary, **settings)


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "zero"])
@pytest.mark.parametrize("tile", [16, 32, 48, 500])
def test_cores_cover_the_scene_once_and_weights_sum_to_one(boundary, tile):
    P1, P2 = blurs(boundary)
    plan = make_plan(P1, P2, tile)
    for P, spans in ((P1, plan.rows), (P2, plan.cols)):
        cores, total = np.zeros(P.shape[1], int), np.zeros(P.shape[1])
        for n, span in enumerate(spans):
            cores[slice(*span.core)] += 1
            total[slice(*span.kept)] += weights(spans, n)
            assert span.core[1] - span.core[0] <= tile
        assert (cores == 1).all()
        np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-15)


@pytest.mark.parametrize("boundary", ["reflect", "periodic", "zero"])
def test_a_tile_sees_rows_of_the_blur_whole_and_all_of_those_of_its_core(boundary):
    P1, P2 = blurs(boundary)
    for P, spans in ((P1, make_plan(P1, P2, 24).rows), (P2, make_plan(P1, P2, 24).cols)):
        dense = P.toarray()
        for span in spans:
            seen = dense[span.seen][:, span.fine]
            np.testing.assert_allclose(seen.sum(axis=1), dense[span.seen].sum(axis=1), rtol=1e-14)
            assert len(set(span.fine)) == len(span.fine)
            own = [a for a in range(P.shape[0]) if span.core[0] <= 4 * a < span.core[1]]
            assert set(own) <= set(span.seen)


def test_a_blur_that_goes_round_brings_the_far_end_along():
    P1, P2 = blurs("periodic", phase=3.0)
    first, *_, last = make_plan(P1, P2, 32).rows
    assert first.seen[0] == 0
    assert last.seen[-1] == P1.shape[0] - 1
    ends = [span.runs[1] for span in (first, last) if len(span.runs) > 1]
    assert ends
    assert all(run[0] == 0 or run[1] == 116 for run in ends)


def test_pixels_that_are_kept_lie_well_inside_the_window():
    plan = make_plan(*blurs(), 32)
    for span in plan.rows:
        (start, stop), (first, last) = span.runs[0], span.kept
        assert start == 0 or first - start >= 8
        assert stop == 116 or stop - last >= 8


@pytest.mark.parametrize("boundary", ["reflect", "periodic"])
def test_small_tiles_overlap_by_more_where_a_window_has_a_least_width(boundary):
    blur = gaussian((320, 232), 4, phase=1.5, boundary=boundary)
    for tile in (32, 48, 128):
        usual, wide = (make_plan(*blur, tile, least_window=least) for least in (0, 120))
        assert [span.core for span in wide.rows] == [span.core for span in usual.rows]
        assert [span.kept for span in wide.cols] == [span.kept for span in usual.cols]
        for spans, overlap, size in zip((wide.rows, wide.cols), wide.overlap, wide.shape, strict=True):
            for span in spans:
                (start, stop), (first, last) = span.runs[0], span.core
                assert start == 0 or first - start >= overlap
                assert stop == size or stop - last >= overlap
                assert {start, stop} & {0, size} or stop - start >= 120
    assert usual == wide  # tiles that are large enough are as they were


def test_a_plan_is_plain_json():
    plan = make_plan(*blurs("periodic"), 40)
    assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan


def test_supports_of_a_blur_that_goes_round_lie_beyond_the_end():
    P1, _ = blurs("periodic", phase=3.0)
    found = supports(P1)
    assert found[0, 1] - found[0, 0] == 13
    assert found[:, 0].min() < 0 or found[:, 1].max() > 116
    for a, (first, last) in enumerate(found):
        np.testing.assert_array_equal(np.unique(np.arange(first, last) % 116), np.flatnonzero(P1.toarray()[a]))


def test_a_window_of_coarse_pixels_sees_all_that_they_see():
    for boundary in ("reflect", "periodic"):
        P1, _ = blurs(boundary)
        for start, stop in ((0, 3), (10, 15), (26, 29), (0, 29)):
            span = span_of(P1, start, stop)
            dense = P1.toarray()[start:stop]
            np.testing.assert_allclose(dense[:, span.fine].sum(axis=1), dense.sum(axis=1), rtol=1e-14)


def test_a_tile_that_goes_round_in_itself_has_one_periodic_blur():
    P1, P2 = blurs("periodic", phase=3.0)
    plan = make_plan(P1, P2, 32, periodic=True)
    span = plan.rows[1]
    piece = piece_of(None, None, Degradation(P1, P2, np.ones((1, 3))), span, plan.cols[0], periodic=True)
    dense = piece.degradation.P1.toarray()
    for a, row in enumerate(dense):
        np.testing.assert_allclose(row, np.roll(dense[0], 4 * a), atol=1e-15)


@pytest.mark.parametrize("tile", [24, 32, 60, 116])
def test_a_tile_at_the_rim_of_a_scene_that_goes_round_sees_the_far_end(tile):
    """What the blur mixes into its kept pixels is there, and in its place."""
    P1, P2 = blurs("periodic", phase=3.0)
    plan = make_plan(P1, P2, tile, periodic=True)
    assert Plan.from_json(json.loads(json.dumps(plan.as_json()))) == plan
    scene = np.random.default_rng(0).random(116)
    hsi = P1 @ scene
    for span in plan.rows:
        piece = piece_of(None, None, Degradation(P1, P2, np.ones((1, 3))), span, plan.cols[0], periodic=True)
        np.testing.assert_array_equal(span.fine[span.inside], np.arange(*span.kept))
        here = piece.degradation.P1 @ scene[span.fine]
        needed = [a for a in range(29) if span.kept[0] <= 4 * a < span.kept[1]]
        at = [int(np.flatnonzero(span.seen == a)[0]) for a in needed]
        np.testing.assert_allclose(here[at], hsi[needed], rtol=1e-13)


def test_tiles_of_a_blur_as_wide_as_the_scene_read_all_of_it():
    dense = sparse.csr_array(np.full((10, 40), 1 / 40))
    plan = make_plan(dense, dense, 16)
    assert [span.core for span in plan.rows] == [(0, 12), (12, 24), (24, 40)]
    assert all(span.runs == ((0, 40),) and span.coarse == ((0, 10),) for span in plan.rows)


@pytest.mark.parametrize("tile", [0, 7, 2.5, "a"])
def test_tiles_of_no_size_are_refused(tile):
    with pytest.raises((ValueError, TypeError), match="tile"):
        make_plan(*blurs(), tile)
