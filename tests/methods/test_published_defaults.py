"""Rivals stand here at their authors' settings."""

import pytest

from fastccpd.methods import CBTDAPG, HySure, get

PUBLISHED = {
    CBTDAPG: {
        "rank": 6,
        "p": 0.5,
        "q": 0.5,
        "tau": 1.0,
        "eps": 1e-3,
        "lam": 0.8,
        "theta": 1e-4,
        "eta": 5e-3,
        "max_iter": 300,
        "tol": 1e-4,
        "scale": None,
    },
    HySure: {
        "rank": 6,
        "basis": "vca",
        "lambda_m": 1.0,
        "lambda_phi": 5e-4,
        "mu": 0.05,
        "max_iter": 200,
        "scale": None,
    },
}


@pytest.mark.parametrize("cls", PUBLISHED)
def test_a_rival_is_registered_with_the_published_defaults(cls):
    assert get(cls.name) is cls
    assert cls().options() == PUBLISHED[cls]
