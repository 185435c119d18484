"""The field: builders of the operators, noise, scenes, metrics and smoothing."""

from . import metrics, scenes
from .degrading import add_noise, degrade
from .metrics import score
from .psf import gaussian, preset
from .response import (
    landsat,
    read_edges,
    read_response,
    response_from_edges,
    response_from_groups,
    response_from_table,
)
from .sensors import SENSORS, sensor_response, sensor_table
from .smoothing import lee

__all__ = [
    "SENSORS",
    "add_noise",
    "degrade",
    "gaussian",
    "landsat",
    "lee",
    "metrics",
    "preset",
    "read_edges",
    "read_response",
    "response_from_edges",
    "response_from_groups",
    "response_from_table",
    "scenes",
    "score",
    "sensor_response",
    "sensor_table",
]
