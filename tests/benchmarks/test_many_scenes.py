"""The simulation of many scenes keeps to what arithmetic says of it."""

import asv_folder
import numpy as np
import pytest

many_scenes = asv_folder.module("many_scenes")
Round, SceneTimes, simulate = many_scenes.Round, many_scenes.SceneTimes, many_scenes.simulate

PLAIN = SceneTimes(rounds=(Round(4, 1.0, 0.0), Round(6, 2.0, 0.0)), between=0.0, joining=0.0, written=0.0)


def test_one_worker_does_one_task_after_the_other():
    assert simulate(PLAIN, scenes=3, workers=1) == pytest.approx(3 * PLAIN.work)


def test_more_workers_than_tasks_leave_the_longest_chain():
    assert simulate(PLAIN, scenes=1, workers=100) == pytest.approx(1.0 + 2.0)
    assert simulate(PLAIN, scenes=5, workers=100, clients=1) == pytest.approx(5 * 3.0)
    assert simulate(PLAIN, scenes=5, workers=100, clients=5) == pytest.approx(3.0)


def test_a_round_waits_for_the_whole_of_the_one_before():
    """Four tasks on three workers take two turns, six take two."""
    assert simulate(PLAIN, scenes=1, workers=3) == pytest.approx(2 * 1.0 + 2 * 2.0)


def test_clients_fill_each_other_s_waits_and_their_own_time_is_their_own():
    slow = SceneTimes(PLAIN.rounds, between=1.0, joining=10.0, written=0.0)
    one = simulate(slow, scenes=4, workers=2, clients=1)
    assert one == pytest.approx(4 * (3.0 + 2.0 + 6.0 + 10.0))
    assert simulate(slow, scenes=4, workers=2, clients=4) < 0.6 * one


@pytest.mark.parametrize("workers", [1, 7, 64])
@pytest.mark.parametrize("clients", [1, 8])
def test_no_queue_is_faster_than_its_bounds(workers, clients):
    times, store = many_scenes.MEASURED, 1e9
    seconds = simulate(times, scenes=20, workers=workers, clients=clients, store=store)
    assert seconds >= 20 * times.work / workers
    assert seconds >= 20 * times.bytes / store
    assert seconds <= simulate(times, scenes=20, workers=1, clients=1, store=store) * (1 + 1e-9)


def test_a_slow_store_is_the_limit():
    heavy = SceneTimes((Round(10, 1.0, 1e9),), between=0.0, joining=0.0, written=0.0)
    assert simulate(heavy, scenes=10, workers=1000, clients=10, store=1e8) == pytest.approx(10 * 10 * 10.0 + 1.0)
    assert simulate(heavy, scenes=10, workers=1000, clients=10, store=np.inf) == pytest.approx(1.0)
