"""Which files a fusion reads and writes, and whether it may: asked before any work."""

import os
from collections.abc import Mapping
from pathlib import Path as FilePath

from .. import formats, methods
from ..formats.inspection import as_path
from ..model.files import check_apart
from ..model.types import Matrix, Path
from . import operators
from .preparation import Preparation


def check_outputs(
    hsi: Path,
    msi: Path,
    psf: Path | tuple[Matrix, Matrix] | None,
    srf: Path | Matrix | None,
    rasters: Mapping[str, Path | None],
    pages: Mapping[str, Path | None] | None = None,
    prepared: Preparation | None = None,
) -> None:
    """Refuse outputs of a fusion that are what it reads, or that are one file.

    Parameters
    ----------
    hsi, msi, psf, srf
        As of `fuse_files`.
    rasters : dict of name to path or None
        The images that are written, by the option or argument that names them.
    pages : dict of name to path or None, optional
        Other files that are written.
    prepared : Preparation, optional
        How the files are made ready, by files that are read too.
    """
    read = files_read(hsi, msi, psf, srf, prepared)
    written = [(name, path, formats.files_written(path)) for name, path in rasters.items() if path is not None]
    written += [(name, path, [path]) for name, path in (pages or {}).items() if path is not None]
    check_apart(written, read)


def files_read(
    hsi: Path,
    msi: Path,
    psf: Path | tuple[Matrix, Matrix] | None = None,
    srf: Path | Matrix | None = None,
    prepared: Preparation | None = None,
) -> list[Path]:
    """Every file that a fusion may look at; parameters as of `check_outputs`."""
    read: list[Path] = [*formats.files_read(hsi), *formats.files_read(msi), *operators.files_read(psf, srf)]
    return read if prepared is None else [*read, *prepared.files_read()]


def hashes_beside(
    psf: Path | tuple[Matrix, Matrix] | None, srf: Path | Matrix | None, prepared: Preparation
) -> dict[str, dict[str, str]]:
    """The path and the SHA-256 of each file that is read beside the two images, by the option that names it.

    Parameters
    ----------
    psf, srf, prepared
        As of `check_outputs`.
    """
    found: dict[str, dict[str, str]] = {}
    for name, path in prepared.rasters_read().items():
        found[name] = {"path": os.fsdecode(path)} | formats.hashes_of(formats.header(path))
    named = {"psf": operators.files_read(psf, None), "srf": operators.files_read(None, srf)}
    for name, files in named.items():
        for file in filter(FilePath.is_file, files):  # "gaussian,sigma=1.5" is no file
            found[name] = {"path": str(file), "sha256": formats.sha256(file)}
    return found


def check_targets(
    output: Path | None,
    uncertainty: Path | None,
    overwrite: bool,
    method: methods.Method,
    starts: int,
    combine: str,
    cog: bool = False,
) -> None:
    """Refuse, before anything is read, what cannot or must not be written."""
    if output is not None:
        formats.check_target(output, overwrite)
        suffixes = formats.FORMATS["geotiff"]
        if cog and as_path(output).suffix.lower() not in suffixes:
            raise ValueError(f"--cog: got the output {output}; a GeoTIFF, {' or '.join(suffixes)}, is needed")
    if uncertainty is None:
        return
    by_starts = method.has_starts and starts > 1 and combine == "mean"
    if not (method.tells_uncertainty or by_starts):
        able = " or ".join(name for name in methods.names() if methods.get(name).tells_uncertainty)
        spread = ", or several --starts with --combine mean," if method.has_starts else ""
        raise ValueError(f"--uncertainty: {method.name} tells none; --method {able}{spread} is needed")
    formats.check_target(uncertainty, overwrite)
