"""EnMAP: a GeoTIFF `…-SPECTRAL_IMAGE.TIF` with `…-METADATA.XML` beside it, levels 1C and 2A.

The image alone has neither wavelengths nor units; the metadata have both: for each band of `bandCharacterisation` the
centre and width in nm, a gain and an offset. The folder of a product stands for its image, and so do the metadata.
"""

from dataclasses import replace

import numpy as np

from .geotiff import open_geotiff
from .xml_text import number, parse_file

_METADATA = "METADATA.XML"
_IMAGES = ("SPECTRAL_IMAGE.TIF", "SPECTRAL_IMAGE.TIFF", "SPECTRAL_IMAGE_COG.TIF", "SPECTRAL_IMAGE_COG.TIFF")


def metadata_beside(path):
    """The metadata that belong to an image, or None."""
    end = next((end for end in _IMAGES if path.name.upper().endswith(end)), None)
    return None if end is None else _sibling(path, path.name[: -len(end)], (_METADATA,))


def image_of(path):
    """The image that a folder or a file of metadata stands for; None where it is no product of EnMAP."""
    if path.is_dir():
        found = [file for file in sorted(path.iterdir()) if file.name.upper().endswith(_METADATA)]
        images = [image for image in map(image_of, found) if image is not None]
        if len(images) > 1:
            raise ValueError(f"{path}: holds {len(images)} images of EnMAP; name the one that is meant")
        return images[0] if images else None
    if not path.name.upper().endswith(_METADATA):
        return None
    return _sibling(path, path.name[: -len(_METADATA)], _IMAGES)


def open_enmap(path, band_axis, variable=None):
    """The image of a product, with what its metadata say."""
    image = image_of(path) or path
    stored = open_geotiff(image, band_axis)
    metadata = metadata_beside(image)
    if metadata is None:
        return stored
    header, bands = stored.header, stored.header.shape[2]
    found = _bands(metadata)
    notes = list(header.source["notes"])
    known = {}
    if len(found) != bands:
        notes.append(f"{metadata.name} is left out: it describes {len(found)} bands, and the image has {bands}")
    else:
        centres, widths, gains, offsets = found.T
        if header.wavelengths is None and (centres > 0.0).all():
            known["wavelengths"] = centres
            known["fwhm"] = widths if (widths > 0.0).all() else None
        if header.scale is None and header.offset is None and np.isfinite(gains).all() and gains.all():
            known["scale"], known["offset"] = gains, np.where(np.isfinite(offsets), offsets, 0.0)
    source = header.source | {
        "path": str(image),
        "sensor": "EnMAP",
        "files": [str(image), str(metadata)],
        "notes": tuple(notes),
    }
    return replace(stored, header=replace(header, **known, source=source))


def _bands(metadata):
    """Centre, width, gain and offset of each band, (bands, 4); NaN for what is no number."""
    names = ("wavelengthCenterOfBand", "FWHMOfBand", "GainOfBand", "OffsetOfBand")
    elements = [element for element in parse_file(metadata).iter("bandID") if element.find(names[0]) is not None]
    rows = [[number(element.findtext(name)) for name in names] for element in elements]
    return np.array(rows, float).reshape(-1, len(names))


def _sibling(path, stem, ends):
    """The file beside a path whose name is the stem and one of the ends, in whatever case."""
    wanted = {(stem + end).upper() for end in ends}
    return next(
        (file for file in sorted(path.parent.iterdir()) if file.name.upper() in wanted and file.is_file()), None
    )
