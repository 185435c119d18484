"""What the files of a raster held, in a few letters: SHA-256 of one, or of all that were read."""

from .inspection import sha256, sha256_of_all
from .raster import Header, Raster


def hashes_of(header: Header | Raster) -> dict[str, str]:
    """The SHA-256 of the files of a header, by the names that `source` has for them.

    Parameters
    ----------
    header : Header or Raster
        Of a file.

    Returns
    -------
    dict of str to str
        "sha256", and of ENVI "header_sha256"; of a product of many files one that depends on all that are read.
    """
    source = header.source
    hashes = {"sha256": sha256(source["path"]) if "files" not in source else sha256_of_all(source["files"])}
    if "header_path" in source:
        hashes["header_sha256"] = sha256(source["header_path"])
    return hashes
