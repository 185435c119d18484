"""Small pairs of images in files, for tests of what reads them."""

import numpy as np

from fastccpd import Degradation, rasters
from fastccpd.imaging import add_noise, degrade, gaussian, landsat, preset, scenes

SHAPE, RATIO = (24, 20, 36), 4
UTM_33 = (
    'PROJCS["WGS 84 / UTM zone 33N",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
    'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
    'PARAMETER["latitude_of_origin",0],PARAMETER["central_meridian",15],PARAMETER["scale_factor",0.9996],'
    'PARAMETER["false_easting",500000],PARAMETER["false_northing",0],UNIT["metre",1]]'
)
CORNER = (600000.0, 4600000.0)
SUFFIXES = {"npy": ".npy", "npz": ".npz", "mat": ".mat", "envi": ".hdr", "tif": ".tif"}


def grid(pixel, down=0.0, right=0.0, crs=UTM_33):
    """North-up, `pixel` metres a pixel, its corner moved by metres."""
    return rasters.Georeference(crs, (pixel, 0.0, CORNER[0] + right, 0.0, -pixel, CORNER[1] - down))


def pair(*, snr=40.0, georeferenced=False, dtype=np.float64, down=0.0, right=0.0):
    """(truth, hsi, msi) as rasters; the MSI's pixels are 10 m, and `down` and `right` move the HSI's grid by metres."""
    scene = scenes.synthetic(SHAPE)
    if georeferenced:
        blur = gaussian(SHAPE[:2], RATIO, phase=1.5, boundary="reflect")
        degradation = Degradation(*blur, landsat(SHAPE[2]))
    else:
        degradation = preset("stereo", SHAPE)
    rng = np.random.default_rng(0)
    hsi, msi = (add_noise(image, snr, rng).astype(dtype) for image in degrade(scene.cube, degradation))
    fine, coarse = (grid(10.0), grid(40.0, down, right)) if georeferenced else (None, None)
    known = {"wavelengths": scene.wavelengths, "fwhm": np.full(SHAPE[2], 60.0)}
    return (
        rasters.Raster(scene.cube, **known, georeference=fine),
        rasters.Raster(hsi, **known, georeference=coarse),
        rasters.Raster(msi, georeference=fine),
    )


def write_pair(folder, form="npz", **settings):
    """The pair in files of a format; returns the paths of HSI and MSI as text, and the truth."""
    truth, hsi, msi = pair(**settings)
    paths = [str(folder / f"{name}{SUFFIXES[form]}") for name in ("hsi", "msi")]
    for path, image in zip(paths, (hsi, msi), strict=True):
        rasters.write(path, image)
    return *paths, truth
