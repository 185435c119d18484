"""GDAL's virtual rasters (.vrt): XML that says which files an image is made of.

The one format that must lead to other files, so what it may lead to is narrow: GeoTIFF and JPEG 2000 files on this
machine, by plain paths. Archives, the network, raw bytes, code, further virtual rasters are refused before GDAL sees
any of it.
"""

from pathlib import Path

from .inspection import beginning, check_text
from .jpeg2000 import open_with_gdal
from .xml_text import LARGEST, local, parse_file

_KIND = "a virtual raster"
_SOURCES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"\x00\x00\x00\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")
_MOST_FILES = 10_000
_MOST_BANDS = 5_000

# Elements that name files.
_NAMES = ("SourceFilename", "SourceDataset")
# What else a virtual raster may hold; anything not listed might lead somewhere.
_ELEMENTS = frozenset(
    (
        *("VRTDataset", "VRTRasterBand", "SRS", "GeoTransform", "GCPList", "GCP", "Metadata", "MDI", "OverviewList"),
        *("ColorInterp", "NoDataValue", "Description", "Offset", "Scale", "UnitType", "CategoryNames", "Category"),
        *("SimpleSource", "ComplexSource", "AveragedSource", "NoDataFromMaskSource", "SourceBand", "SourceProperties"),
        *("SrcRect", "DstRect", "ScaleOffset", "ScaleRatio", "LUT", "NODATA", "UseMaskBand", "OpenOptions", "OOI"),
        *("HideNoDataValue", "MaskBand", "Histograms", "HistItem", "HistMin", "HistMax", "BucketCount", "HistCounts"),
        *("IncludeOutOfRange", "Approximate", "Resampling", "BlockXSize", "BlockYSize", "ColorTable", "Entry"),
    )
)


def open_vrt(path, band_axis):
    """The bands of a virtual raster."""
    beginning(path)
    return open_with_gdal(path, "VRT", _KIND, band_axis, [str(path), *map(str, sources_of(path))])


def sources_of(path):
    """The files that a virtual raster is made of, each of a kind that may be.

    Parameters
    ----------
    path : Path

    Returns
    -------
    list of Path
    """
    check_text(path, "a virtual raster", LARGEST)
    found = {}
    root = parse_file(path)
    if local(root) != "VRTDataset" or root.get("subClass"):
        raise ValueError(f"{path}: is not a plain virtual raster, but {root.get('subClass') or local(root)}")
    bands = sum(local(element) == "VRTRasterBand" for element in root)
    if bands > _MOST_BANDS:
        raise ValueError(f"{path}: has {bands} bands, too many for {_KIND}")
    for element in root.iter():
        name = local(element)
        if element.get("subClass"):
            raise ValueError(f"{path}: holds a band of kind {element.get('subClass')[:40]}; plain bands are needed")
        if name in _NAMES:
            file = _source(path, element)
            found[file] = None
        elif name not in _ELEMENTS:
            raise ValueError(f"{path}: holds {name[:40]}, which is not read; SimpleSource or ComplexSource is needed")
    if len(found) > _MOST_FILES:
        raise ValueError(f"{path}: names {len(found)} files, too many for {_KIND}")
    return list(found)


def _source(path, element):
    text = (element.text or "").strip()
    if not text or text.startswith("/vsi") or "://" in text or "\0" in text or text.lstrip().startswith("<"):
        raise ValueError(f"{path}: leads to {text[:60]!r}; GeoTIFF or JPEG 2000 files on this machine are needed")
    relative = element.get("relativeToVRT", "0") not in ("0", "")
    file = (path.parent / text) if relative else Path(text)
    head, _ = beginning(file)
    if not head.startswith(_SOURCES):
        raise ValueError(f"{path}: leads to {file.name[:60]}, which is neither GeoTIFF nor JPEG 2000")
    return file
