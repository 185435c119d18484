"""Files as two satellites deliver them, made to try `fastccpd fuse` on: docs/walkthrough.md explains what comes out.

    python docs/enmap_sentinel2.py FOLDER [--spectra ENMAP.tif]

The ground is a landscape that never was, drawn on pixels of 5 m, its materials with the spectra of the purest pixels of
an EnMAP scene (or, without one, made up). Two instruments look at it:

    EnMAP       30 m, UTM 33N, int16 reflectance × 10000, a wedge of nodata beside the turned swath, 26 water bands
                without data, wavelengths and gains in METADATA.XML; blurred by a Gaussian of σ 13.5 m, and half a
                Sentinel pixel (5 m) further down and right than its georeferencing says
    Sentinel-2  10 m, UTM 32N, a larger extent, uint16 reflectance × 10000 + 1000, a cloud; a scene classification of
                20 m beside it, in which the cloud is class 9

Both have noise. What was measured on the fine grid of the result lies in truth.npz, to compare with.
"""

import argparse
from pathlib import Path

import numpy as np
import rasterio
from rasterio.warp import transform
from scipy.ndimage import gaussian_filter, map_coordinates

from fastccpd import rasters
from fastccpd.imaging import landscape, response_from_table

HSI_SHAPE, RATIO = (54, 48), 3
OPTICS = 4.5, 13.5  # what Sentinel-2 and EnMAP see of a point: σ in metres, box and optics together
SIGMA, SHIFT = np.sqrt(OPTICS[1] ** 2 - OPTICS[0] ** 2) / 10.0, 0.5  # blur and misregistration, in pixels of 10 m
UTM_33, UTM_32 = rasterio.CRS.from_epsg(32633), rasterio.CRS.from_epsg(32632)
CORNER = 369990.0, 5808000.0
GROUND, MARGIN = 5.0, 60  # metres a pixel of the ground, and how many of them lie around the HSI

# Sentinel-2A's bands of 10 and 20 m: name, centre and width in nm.
BANDS = {
    "B2": (492.4, 66), "B3": (559.8, 36), "B4": (664.6, 31), "B5": (704.1, 15), "B6": (740.5, 15), "B7": (782.8, 20),
    "B8": (832.8, 106), "B8A": (864.7, 21), "B11": (1613.7, 91), "B12": (2202.4, 175),
}  # fmt: skip

NAME = "ENMAP01-____L2A-DT0000001234_20220724T104526Z_001_V010400_20231116T130000Z"


def spectra_of(path, count=7):
    """Wavelengths, widths, and the spectra of the purest pixels: each the farthest from what the ones before span."""
    scene = rasters.read(path)
    good = ~(scene.cube == scene.nodata).all(axis=(0, 1))
    pixels = scene.cube.reshape(-1, scene.shape[2]).astype(float)
    pixels = np.clip(pixels[(pixels[:, good] > scene.nodata).all(axis=1)], 0.0, None) / 10000.0
    left, chosen = pixels[:, good].copy(), []
    for _ in range(count):
        chosen.append(int(np.argmax(np.linalg.norm(left, axis=1))))
        direction = left[chosen[-1]] / np.linalg.norm(left[chosen[-1]])
        left -= np.outer(left @ direction, direction)
    centres = scene.wavelengths
    spectra = [np.interp(centres, centres[good], pixels[pixel, good]) for pixel in chosen]
    return centres, scene.fwhm, np.array(spectra)


def spectra_made_up(count=7, rng=None):
    """The same without a scene."""
    centres = np.linspace(418.0, 2446.0, 224)
    kinds = landscape.kinds_of(count)
    spectra = [landscape.spectrum(kind, centres, rng or np.random.default_rng(1)) for kind in kinds]
    return centres, np.full(224, 9.0), np.array(spectra)


def response(centres, widths):
    """What Sentinel-2 makes of the HSI's bands, and the table of it."""
    table = {}
    for name, (centre, width) in BANDS.items():
        at = np.arange(centre - 1.5 * width, centre + 1.5 * width + 1.0)
        table[name] = (at, np.exp(-4.0 * np.log(2.0) * ((at - centre) / width) ** 2))
    return response_from_table(table, centres, fwhm=widths), table


def sampled(ground, x, y):
    """The ground at coordinates in UTM 33N."""
    rows = (CORNER[1] - y) / GROUND + MARGIN - 0.5
    columns = (x - CORNER[0]) / GROUND + MARGIN - 0.5
    return np.stack([map_coordinates(layer, (rows, columns), order=3, mode="nearest") for layer in ground], axis=-1)


def centres_of(corner, pixel, shape):
    """The coordinates of pixels' centres."""
    rows, columns = np.meshgrid(np.arange(shape[0]) + 0.5, np.arange(shape[1]) + 0.5, indexing="ij")
    return corner[0] + pixel * columns, corner[1] - pixel * rows


def noisy(image, snr, rng):
    """The image with white noise, of the same size relative to the signal in every band."""
    sigma = np.sqrt(np.mean(image**2, axis=(0, 1))) * 10.0 ** (-snr / 20.0)
    return image + sigma * rng.normal(size=image.shape)


def make(folder, spectra=None, seed=0, snr=(35.0, 38.0)):
    """Write the files.

    Parameters
    ----------
    folder : path
    spectra : path, optional
        An EnMAP scene to take spectra from.
    seed : int
    snr : (hsi, msi)
        Signal-to-noise ratios in dB.
    """
    rng = np.random.default_rng(seed)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    centres, widths, materials = spectra_made_up(rng=rng) if spectra is None else spectra_of(spectra)
    size = tuple(int(pixels * RATIO * 10.0 / GROUND) + 2 * MARGIN for pixels in HSI_SHAPE)
    cover, shade = landscape.maps(size, landscape.kinds_of(len(materials)), rng)
    # As sharp as Sentinel-2 sees it, which is as sharp as the result can be.
    ground = [gaussian_filter(layer, OPTICS[0] / GROUND) for layer in np.moveaxis(cover * shade[:, :, None], 2, 0)]

    fine = tuple(pixels * RATIO for pixels in HSI_SHAPE)
    truth = sampled(ground, *centres_of(CORNER, 10.0, fine)) @ materials
    write_hsi(folder, ground, materials, centres, widths, rng, snr[0])
    write_msi(folder, ground, materials @ response(centres, widths)[0].T, rng, snr[1])
    np.savez(folder / "truth.npz", cube=truth.astype(np.float32), wavelengths=centres, fwhm=widths)
    lines = ["band,wavelength_nm,response"]
    for name, (at, values) in response(centres, widths)[1].items():
        lines += [f"{name},{wavelength:g},{value:.6g}" for wavelength, value in zip(at, values, strict=True)]
    (folder / "sentinel2.csv").write_text("\n".join(lines) + "\n")


def write_hsi(folder, ground, materials, centres, widths, rng, snr):
    """EnMAP's image and its metadata."""
    x, y = centres_of(CORNER, 30.0, HSI_SHAPE)
    coarse = [gaussian_filter(layer, 10.0 * SIGMA / GROUND) for layer in ground]
    # It shows what lies 5 m down and right of where it says it looks.
    cube = noisy(sampled(coarse, x + 10.0 * SHIFT, y - 10.0 * SHIFT) @ materials, snr, rng)
    counts = np.round(np.clip(cube, 0.0, 3.0) * 10000.0).astype(np.int16)
    dead = np.zeros(len(centres), bool)
    dead[126:140] = dead[159:171] = True
    counts[:, :, dead] = -32768
    rows, columns = np.indices(HSI_SHAPE)
    counts[columns < 5.0 - 0.16 * rows] = -32768
    path = folder / f"{NAME}-SPECTRAL_IMAGE.TIF"
    profile = {"driver": "GTiff", "crs": UTM_33, "transform": rasterio.Affine(30, 0, CORNER[0], 0, -30, CORNER[1])}
    write_tiff(path, counts, nodata=-32768, **profile)
    bands = "".join(
        f'<bandID number="{n + 1}"><wavelengthCenterOfBand>{centre:g}</wavelengthCenterOfBand><FWHMOfBand>{width:g}'
        "</FWHMOfBand><GainOfBand>0.0001</GainOfBand><OffsetOfBand>0</OffsetOfBand></bandID>"
        for n, (centre, width) in enumerate(zip(centres, widths, strict=True))
    )
    text = f"<level_X><specific><bandCharacterisation>{bands}</bandCharacterisation></specific></level_X>"
    (folder / f"{NAME}-METADATA.XML").write_text(f'<?xml version="1.0" encoding="UTF-8"?>{text}')


def write_msi(folder, ground, materials, rng, snr):
    """Sentinel-2's image and its scene classification."""
    shape = tuple(pixels * RATIO + 46 for pixels in HSI_SHAPE)
    (left,), (top,) = transform(UTM_33, UTM_32, [CORNER[0]], [CORNER[1]])
    corner = round(left, -1) - 170.0, round(top, -1) + 290.0
    x, y = centres_of(corner, 10.0, shape)
    x, y = (np.reshape(side, shape) for side in transform(UTM_32, UTM_33, x.ravel(), y.ravel()))
    cube = noisy(sampled(ground, x, y) @ materials, snr, rng)
    rows, columns = np.indices(shape)
    cloud = np.hypot(rows - 0.62 * shape[0], 0.7 * (columns - 0.6 * shape[1])) < 15.0
    cube[cloud] = 0.9 + 0.05 * rng.normal(size=(int(cloud.sum()), 1))
    counts = np.round(np.clip(cube, 0.0, 5.0) * 10000.0 + 1000.0).astype(np.uint16)
    profile = {"driver": "GTiff", "crs": UTM_32}
    place = rasterio.Affine(10, 0, corner[0], 0, -10, corner[1])
    write_tiff(folder / "sentinel2.tif", counts, nodata=0, descriptions=list(BANDS), transform=place, **profile)
    blocks = cloud.reshape(shape[0] // 2, 2, shape[1] // 2, 2).any(axis=(1, 3))
    classes = np.where(blocks, 9, 4).astype(np.uint8)[:, :, None]
    place = rasterio.Affine(20, 0, corner[0], 0, -20, corner[1])
    write_tiff(folder / "scl.tif", classes, nodata=0, transform=place, **profile)


def write_tiff(path, cube, descriptions=(), **profile):
    """A plain GeoTIFF."""
    rows, columns, bands = cube.shape
    size = {"height": rows, "width": columns, "count": bands, "dtype": cube.dtype.name}
    with rasterio.open(path, "w", compress="deflate", **profile, **size) as image:
        image.write(np.ascontiguousarray(np.moveaxis(cube, 2, 0)))
        for number, text in enumerate(descriptions, 1):
            image.set_band_description(number, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Files as two satellites deliver them, for docs/walkthrough.md.")
    parser.add_argument("folder", help="where to write them")
    parser.add_argument("--spectra", help="an EnMAP scene whose spectra the materials have (default: made up)")
    given = parser.parse_args()
    make(given.folder, given.spectra)
