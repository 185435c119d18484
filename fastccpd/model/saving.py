"""Results as npz files: maps or factors rather than pixels, nothing pickled, every array with its SHA-256.

about           JSON as UTF-8 bytes: format, hashes of the arrays, and everything of a result that is no array
maps_Z, maps_S  ·  factors_A, factors_B, factors_C  ·  mixture_Z, mixture_S  ·  image
                whichever there are; no maps, factors or mixture are rendered for it
trace           one row for each column of `Trace`
uncertainty, noise_hsi, noise_msi
P1_data, P1_indices, P1_indptr, P1_shape (P2, PM alike)
                the operators, in compressed rows
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from .checks import as_choice
from .degradation import Degradation
from .files import check_free, first_line, replacing
from .problem import Factors, Maps, Mixture
from .result import FusionResult, Status, Trace
from .types import Array, Path
from .verdict import Verdict

FORMAT = 1

_OPERATORS = ("P1", "P2", "PM")
_PLAIN = ("method", "options", "seed", "provenance", "cost", "n_iter", "seconds", "effective_rank", "combined", "shown")

# What a stage has beside its fields.
_PROPERTIES = ("number", "n_iter", "effective_rank")


def save(result: FusionResult, path: Path, *, overwrite: bool = False) -> None:
    """Write a result, whole or not at all.

    Parameters
    ----------
    result : FusionResult
    path : path
        Its suffix should be .npz.
    overwrite : bool
        False refuses a path where something is.
    """
    arrays = _arrays_of(result)
    about = {"format": FORMAT, "sha256": {name: _sha256(array) for name, array in arrays.items()}}
    about |= {name: getattr(result, name) for name in _PLAIN}
    about |= {"status": result.status.name, "dtype": result.dtype.name, "start_costs": result.start_costs}
    about["stages"] = {name: _plain_stage(stage) for name, stage in result.stages.items() if stage is not None}
    about["verdict"] = result.verdict.as_json()
    about["decomposer"] = None if result.decomposer is None else result.decomposer.settings()
    text = json.dumps(about, default=_plain).encode("utf-8")
    check_free([path], overwrite)
    with replacing([path], overwrite) as [temporary], open(temporary, "xb") as file:
        np.savez(file, about=np.frombuffer(text, np.uint8), **arrays)


def result_of(arrays: Mapping[str, Array], path: Path) -> tuple[FusionResult, dict[str, Any] | None]:
    """(result, settings of its decomposer or None) of the arrays of a file.

    Parameters
    ----------
    arrays : dict of str to array
    path : path
        For the sentences on what is wrong with them.
    """
    try:
        about = json.loads(arrays["about"].tobytes().decode("utf-8"))
        form = about["format"]
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: is no saved result; a file of FusionResult.save is needed") from error
    if form != FORMAT:
        raise ValueError(f"{path}: is a saved result of format {form!r}; format {FORMAT} is needed")
    try:
        for name, expected in about["sha256"].items():
            if name not in arrays or _sha256(arrays[name]) != expected:
                raise ValueError(f"the array {name} is not the one that was saved")
        result = FusionResult(
            **{name: about[name] for name in _PLAIN},
            status=Status[about["status"]],
            trace=Trace(
                **{column.name: row.tolist() for column, row in zip(fields(Trace), arrays["trace"], strict=True)}
            ),
            dtype=np.dtype(about["dtype"]),
            start_costs=tuple(about["start_costs"]),
            # A file that was written before there were any tells of none.
            verdict=Verdict.from_json(about.get("verdict", {"grade": "UNKNOWN", "details": "the file tells of none"})),
            stages={name: _stage_of(stage) for name, stage in about["stages"].items()},
            known_factors=Factors(*_named(arrays, "factors_", "ABC")) if "factors_A" in arrays else None,
            maps=Maps(*_named(arrays, "maps_", "ZS")) if "maps_Z" in arrays else None,
            source=Mixture(*_named(arrays, "mixture_", "ZS")) if "mixture_Z" in arrays else None,
            image=arrays.get("image"),
            uncertainty=arrays.get("uncertainty"),
            noise=(arrays["noise_hsi"], arrays["noise_msi"]) if "noise_hsi" in arrays else None,
            degradation=Degradation(*(_matrix(arrays, name) for name in _OPERATORS)) if "P1_data" in arrays else None,
        )
        _check(result)
        decomposer = about["decomposer"]
        if decomposer is not None and (result.maps is None or result.degradation is None):
            raise ValueError("no maps that could be decomposed")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: is a damaged saved result ({first_line(error)})") from error
    return result, decomposer


def _check(result):
    """Refuse what no fusion gives: parts that do not fit each other, figures that are none."""
    image = result.source if result.image is None else result.image
    parts = {"image": image, "maps": result.maps, "factors": result.known_factors}
    shown = parts[as_choice(result.shown, "shown", parts)]
    if shown is None:
        raise ValueError(f"{result.shown} are shown, but there are none")
    shape = shown.shape if result.degradation is None else result.degradation.sri_shape
    if result.image is not None:
        _check_shapes(image=(result.image, shape))
    for mixture in (result.maps, result.source):
        if mixture is not None:
            count = mixture.S.shape[-1:]
            _check_shapes(Z=(mixture.Z, shape[:2] + count), S=(mixture.S, shape[2:] + count))
    if result.known_factors is not None:
        count = result.known_factors.A.shape[-1:]
        _check_shapes(**{name: (getattr(result.known_factors, name), (n, *count)) for name, n in zip("ABC", shape)})
    if result.uncertainty is not None:
        _check_shapes(uncertainty=(result.uncertainty, shape[:2]))
    if result.noise is not None:
        _check_shapes(noise=(result.noise[0], shape[2:]))
    if result.dtype not in (np.float32, np.float64):
        raise ValueError(f"images of {result.dtype}")
    kinds = {"method": str, "options": dict, "provenance": dict, "cost": float, "n_iter": int, "combined": int}
    for name, kind in kinds.items():
        if not isinstance(getattr(result, name), kind):
            raise ValueError(f"{name} is {getattr(result, name)!r}")


def _check_shapes(**expected):
    for name, (array, shape) in expected.items():
        if array.shape != tuple(shape) or 0 in array.shape:
            raise ValueError(f"{name} has shape {array.shape}, where {tuple(shape)} is needed")


def _arrays_of(result) -> dict[str, Any]:
    found = {"trace": np.array([getattr(result.trace, column.name) for column in fields(Trace)], dtype=np.float64)}
    if result.maps is not None:
        found |= {"maps_Z": result.maps.Z, "maps_S": result.maps.S}
    if result.known_factors is not None:
        found |= {f"factors_{name}": factor for name, factor in zip("ABC", result.known_factors, strict=True)}
    if isinstance(result.source, Mixture):
        found |= {"mixture_Z": result.source.Z, "mixture_S": result.source.S}
    elif result.shown == "image":  # else it can be rendered again
        found["image"] = result.sri
    if result.uncertainty is not None:
        found["uncertainty"] = result.uncertainty
    if result.noise is not None:
        found |= dict(zip(("noise_hsi", "noise_msi"), result.noise, strict=True))
    if result.degradation is not None:
        for name in _OPERATORS:
            P = getattr(result.degradation, name)
            parts = {"data": P.data, "indices": P.indices, "indptr": P.indptr, "shape": np.array(P.shape)}
            found |= {f"{name}_{part}": array for part, array in parts.items()}
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _matrix(arrays, name):
    data, indices, indptr, shape = _named(arrays, f"{name}_", ("data", "indices", "indptr", "shape"))
    return sparse.csr_array((data, indices, indptr), shape=tuple(int(n) for n in shape))


def _named(arrays, prefix, names):
    return tuple(arrays[prefix + name] for name in names)


def _sha256(array):
    head = f"{array.dtype.str} {array.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


def _plain_stage(stage):
    """The figures of a stage, without its arrays."""
    names = [column.name for column in fields(stage)] + [name for name in _PROPERTIES if hasattr(stage, name)]
    values = {name: getattr(stage, name) for name in names}
    plain = int | float | str | tuple | dict | Enum | np.number | None
    return {name: value for name, value in values.items() if isinstance(value, plain)}


def _stage_of(plain):
    stage = SimpleNamespace(**plain)
    if hasattr(stage, "status"):
        stage.status = Status(stage.status)
    return stage


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.value if isinstance(value, Enum) else str(value)
