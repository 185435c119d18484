"""Small products with the true structure of real ones: EnMAP, PRISMA, Sentinel-2, Landsat, virtual rasters."""

import zipfile

import h5py
import numpy as np
import rasterio
from raster_files import write_tiff

SENTINEL_BANDS = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
SENTINEL_CENTRES = (442.7, 492.4, 559.8, 664.6, 704.1, 740.5, 782.8, 832.8, 864.7, 945.1, 1373.5, 1613.7, 2202.4)
SIZES = {"10": ("B02", "B03", "B04", "B08"), "20": ("B02", "B03", "B04", "B05", "B06", "B07", "B8A", "B11", "B12")}
UTM = rasterio.CRS.from_epsg(32633)


def write_jp2(path, band, pixel):
    """One band, lossless."""
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = {"width": band.shape[1], "height": band.shape[0], "count": 1, "dtype": band.dtype.name}
    where = {"crs": UTM, "transform": rasterio.Affine(pixel, 0, 399960, 0, -pixel, 5900040)}
    with rasterio.open(path, "w", driver="JP2OpenJPEG", QUALITY="100", REVERSIBLE="YES", **settings, **where) as image:
        image.write(band, 1)


def sentinel2(folder, rows=24, columns=20, offset=-1000, seed=0):
    """A SAFE folder of level 2A, its counts of 10 m by band."""
    rng = np.random.default_rng(seed)
    root = folder / "S2A_MSIL2A_20240501T101031_N0510_R022_T33UUU_20240501T150000.SAFE"
    granule = root / "GRANULE" / "L2A_T33UUU_A046000_20240501T101025" / "IMG_DATA"
    stem = "T33UUU_20240501T101031"
    counts = {}
    for size, bands in SIZES.items():
        scale = int(size) // 10
        for name in bands:
            band = rng.integers(1001, 5000, (rows // scale, columns // scale), dtype=np.uint16)
            counts[name, size] = band
            write_jp2(granule / f"R{size}m" / f"{stem}_{name}_{size}m.jp2", band, 10.0 * scale)
    classes = np.full((rows // 2, columns // 2), 4, np.uint8)
    classes[:2, :3] = 9
    write_jp2(granule / "R20m" / f"{stem}_SCL_20m.jp2", classes, 20.0)
    counts["SCL", "20"] = classes
    (root / "MTD_MSIL2A.xml").write_text(_sentinel_metadata(offset))
    (root / "manifest.safe").write_text("<xfdu/>")
    return root, counts


def _sentinel_metadata(offset):
    bands = "".join(
        f'<Spectral_Information bandId="{n}" physicalBand="{name.replace("B0", "B")}"><RESOLUTION>10</RESOLUTION>'
        f'<Wavelength><MIN unit="nm">{centre - 30}</MIN><MAX unit="nm">{centre + 30}</MAX>'
        f'<CENTRAL unit="nm">{centre}</CENTRAL></Wavelength></Spectral_Information>'
        for n, (name, centre) in enumerate(zip(SENTINEL_BANDS, SENTINEL_CENTRES, strict=True))
    )
    offsets = "".join(f'<BOA_ADD_OFFSET band_id="{n}">{offset}</BOA_ADD_OFFSET>' for n in range(13))
    return (
        '<?xml version="1.0" encoding="UTF-8"?><n1:Level-2A_User_Product '
        'xmlns:n1="https://psd-14.sentinel2.eo.esa.int/PSD/User_Product_Level-2A.xsd"><n1:General_Info><Product_Info>'
        "<PROCESSING_BASELINE>05.10</PROCESSING_BASELINE><Datatake><SPACECRAFT_NAME>Sentinel-2A</SPACECRAFT_NAME>"
        "</Datatake></Product_Info><Product_Image_Characteristics><QUANTIFICATION_VALUES_LIST>"
        '<BOA_QUANTIFICATION_VALUE unit="none">10000</BOA_QUANTIFICATION_VALUE></QUANTIFICATION_VALUES_LIST>'
        f"<BOA_ADD_OFFSET_VALUES_LIST>{offsets}</BOA_ADD_OFFSET_VALUES_LIST>"
        f"<Spectral_Information_List>{bands}</Spectral_Information_List></Product_Image_Characteristics>"
        "</n1:General_Info></n1:Level-2A_User_Product>"
    )


def zipped(folder, target):
    """A SAFE folder as the zip that is downloaded."""
    with zipfile.ZipFile(target, "w") as archive:
        for file in folder.rglob("*"):
            if file.is_file():
                archive.write(file, f"{folder.name}/{file.relative_to(folder).as_posix()}")
    return target


def landsat(folder, rows=12, columns=10, seed=0):
    """The folder of a scene of Collection 2, level 2, and its counts by band."""
    rng = np.random.default_rng(seed)
    stem = "LC09_L2SP_193023_20240501_20240502_02_T1"
    folder.mkdir(parents=True, exist_ok=True)
    counts, contents, values = {}, [], []
    for n in range(1, 8):
        counts[f"B{n}"] = rng.integers(7000, 20000, (rows, columns, 1), dtype=np.uint16)
        write_tiff(folder / f"{stem}_SR_B{n}.TIF", counts[f"B{n}"], crs=UTM, nodata=0)
        contents.append(f'    FILE_NAME_BAND_{n} = "{stem}_SR_B{n}.TIF"')
        values += [f"    REFLECTANCE_MULT_BAND_{n} = 2.75e-05", f"    REFLECTANCE_ADD_BAND_{n} = -0.2"]
    lines = [
        "GROUP = LANDSAT_METADATA_FILE",
        "  GROUP = PRODUCT_CONTENTS",
        '    PROCESSING_LEVEL = "L2SP"',
        *contents,
        "  END_GROUP = PRODUCT_CONTENTS",
        "  GROUP = IMAGE_ATTRIBUTES",
        '    SPACECRAFT_ID = "LANDSAT_9"',
        "  END_GROUP = IMAGE_ATTRIBUTES",
        "  GROUP = LEVEL2_SURFACE_REFLECTANCE_PARAMETERS",
        *values,
        "  END_GROUP = LEVEL2_SURFACE_REFLECTANCE_PARAMETERS",
        "  GROUP = LEVEL1_PROCESSING_RECORD",
        '    FILE_NAME_BAND_8 = "LC09_L1TP_193023_20240501_20240502_02_T1_B8.TIF"',
        "  END_GROUP = LEVEL1_PROCESSING_RECORD",
        "  GROUP = LEVEL1_RADIOMETRIC_RESCALING",
        "    REFLECTANCE_MULT_BAND_1 = 2.0E-05",
        "    REFLECTANCE_ADD_BAND_1 = -0.100000",
        "  END_GROUP = LEVEL1_RADIOMETRIC_RESCALING",
        "END_GROUP = LANDSAT_METADATA_FILE",
        "END",
    ]
    (folder / f"{stem}_MTL.txt").write_text("\n".join(lines))
    return counts


def enmap(folder, rows=9, columns=8, bands=6, seed=0):
    """An EnMAP product of level 2A: the image without wavelengths, and its metadata; returns image and counts."""
    stem = "ENMAP01-____L2A-DT0000001234_20220724T104526Z_001_V010400_20231116T130000Z"
    folder.mkdir(parents=True, exist_ok=True)
    counts = np.random.default_rng(seed).integers(100, 5000, (rows, columns, bands), dtype=np.int16)
    image = folder / f"{stem}-SPECTRAL_IMAGE.TIF"
    write_tiff(image, counts, crs=UTM, nodata=-32768)
    described = "".join(
        f'<bandID number="{n + 1}"><wavelengthCenterOfBand>{420 + 6.5 * n}</wavelengthCenterOfBand>'
        f"<FWHMOfBand>{6.9 + 0.1 * n}</FWHMOfBand><GainOfBand>0.0001</GainOfBand><OffsetOfBand>0</OffsetOfBand>"
        "</bandID>"
        for n in range(bands)
    )
    (folder / f"{stem}-METADATA.XML").write_text(
        '<?xml version="1.0" encoding="UTF-8"?><level_X><base><format>ENMAP_L2A</format></base><specific>'
        f"<bandCharacterisation>{described}</bandCharacterisation></specific></level_X>"
    )
    return image, counts


def prisma(path, rows=9, columns=8, level="L2D", seed=0):
    """A PRISMA product; returns the counts of both detectors as they are stored, (rows, bands, columns)."""
    rng = np.random.default_rng(seed)
    vnir = rng.integers(1, 60000, (rows, 5, columns), dtype=np.uint16)
    swir = rng.integers(1, 60000, (rows, 4, columns), dtype=np.uint16)
    with h5py.File(path, "w") as file:
        fields = file.create_group(f"HDFEOS/SWATHS/PRS_{level}_HCO/Data Fields")
        fields["VNIR_Cube"], fields["SWIR_Cube"] = vnir, swir
        fields["VNIR_PIXEL_L2_ERR_MATRIX"] = np.zeros(vnir.shape, np.uint8)
        file.create_group(f"HDFEOS/SWATHS/PRS_{level}_HCO/Geolocation Fields")["Latitude"] = np.zeros((rows, columns))
        about = {
            "List_Cw_Vnir": np.array([972.0, 800.0, 600.0, 406.0, 0.0], np.float32),
            "List_Fwhm_Vnir": np.array([13.0, 12.0, 11.0, 10.0, 0.0], np.float32),
            "List_Cw_Swir": np.array([2497.0, 1600.0, 943.0, 0.0], np.float32),
            "List_Fwhm_Swir": np.array([9.0, 10.0, 11.0, 0.0], np.float32),
            "List_Cw_Vnir_Flags": np.array([1, 1, 1, 1, 0], np.int8),
            "L2ScaleVnirMin": np.float32(0.0),
            "L2ScaleVnirMax": np.float32(1.5),
            "L2ScaleSwirMin": np.float32(-0.1),
            "L2ScaleSwirMax": np.float32(0.9),
            "Epsg_Code": np.uint32(32633),
            "Processing_Level": np.bytes_(level[1:]),
            "Product_ULcorner_easting": 500015.0,
            "Product_ULcorner_northing": 5199985.0,
            "Product_LRcorner_easting": 500015.0 + 30.0 * (columns - 1),
            "Product_LRcorner_northing": 5199985.0 - 30.0 * (rows - 1),
        }
        file.attrs.update(about)
    return vnir, swir


def vrt(path, sources, shape, inside=""):
    """A virtual raster of GeoTIFF files, one band of each."""
    bands = "".join(
        f'<VRTRasterBand dataType="UInt16" band="{n + 1}"><Description>band {n + 1} ({0.45 + 0.1 * n:.2f} Micrometers)'
        f'</Description><SimpleSource><SourceFilename relativeToVRT="1">{source}</SourceFilename><SourceBand>1'
        "</SourceBand></SimpleSource></VRTRasterBand>"
        for n, source in enumerate(sources)
    )
    path.write_text(
        f'<VRTDataset rasterXSize="{shape[1]}" rasterYSize="{shape[0]}"><GeoTransform>500000, 30, 0, 4200000, 0, -30'
        f"</GeoTransform>{bands}{inside}</VRTDataset>"
    )
