"""Writes the GeoTIFF files of this folder with GDAL (made with 3.6.2; needs its Python bindings and NumPy).

    python3 make.py

The name of a file in matrix/ says how it is stored: type, compression, predictor, tiles or strips, interleaving, byte order, and
"big" for BigTIFF. All of them hold 37x29 pixels in 3 bands of the pattern below, which the tests compute again.
"""
import os
import numpy as np
from osgeo import gdal, osr

gdal.UseExceptions()
W, H, BANDS = 37, 29, 3
os.chdir(os.path.dirname(os.path.abspath(__file__)))
os.makedirs("matrix", exist_ok=True)

TYPES = {
    "u8": gdal.GDT_Byte, "i8": gdal.GDT_Byte, "u16": gdal.GDT_UInt16, "i16": gdal.GDT_Int16, "u32": gdal.GDT_UInt32,
    "i32": gdal.GDT_Int32, "u64": gdal.GDT_UInt64, "i64": gdal.GDT_Int64, "f32": gdal.GDT_Float32, "f64": gdal.GDT_Float64,
}


def base(b):
    y, x = np.mgrid[0:H, 0:W]
    return (x * 7 + y * 13 + b * 31) % 251


def pattern(t, b):
    v = base(b)
    return {
        "u8": lambda: v.astype(np.uint8),
        "i8": lambda: (v - 125).astype(np.int8).view(np.uint8),
        "u16": lambda: (v * 257).astype(np.uint16),
        "i16": lambda: (v * 251 - 31000).astype(np.int16),
        "u32": lambda: (v * 16843009).astype(np.uint32),
        "i32": lambda: (v * 16843009 - 2**31).astype(np.int32),
        "u64": lambda: v.astype(np.uint64) * np.uint64(72340172838076673),
        "i64": lambda: (v.astype(np.uint64) * np.uint64(72340172838076673)).view(np.int64) ^ np.int64(-2**63),
        "f32": lambda: (v * 0.37 - 20).astype(np.float32),
        "f64": lambda: v * 0.37 - 20,
    }[t]()


def matrix(t, comp, pred, block, inter, order, big=False):
    name = f"matrix/{t}_{comp}_p{pred}_{block}_{inter}_{order}" + ("_big" if big else "") + ".tif"
    opts = [f"INTERLEAVE={inter.upper()}", "ENDIANNESS=" + {"le": "LITTLE", "be": "BIG"}[order], f"COMPRESS={comp.upper()}"]
    if comp != "none":
        opts.append(f"PREDICTOR={pred}")
    opts += ["TILED=YES", "BLOCKXSIZE=16", "BLOCKYSIZE=16"] if block == "tile" else ["BLOCKYSIZE=5"]
    if big:
        opts.append("BIGTIFF=YES")
    if t == "i8":
        opts.append("PIXELTYPE=SIGNEDBYTE")
    ds = gdal.GetDriverByName("GTiff").Create(name, W, H, BANDS, TYPES[t], opts)
    for b in range(BANDS):
        v = pattern(t, b)
        if pred == 3 and order == "be":
            # libtiff swaps these samples once too often when it writes (it reads them back wrong itself); swapped before, they come
            # out as Technical Note 3 says: byte planes from the most significant one.
            v = v.byteswap()
        ds.GetRasterBand(b + 1).WriteArray(v)
    ds = None
    back = gdal.Open(name)
    for b in range(BANDS):
        got = back.GetRasterBand(b + 1).ReadAsArray()
        assert got.tobytes() == pattern(t, b).tobytes(), name


for t in TYPES:
    p = 3 if t[0] == "f" else 2
    matrix(t, "deflate", p, "tile", "pixel", "be")
    matrix(t, "lzw", p, "strip", "band", "le")
for t in ("f32", "i16"):
    p = 3 if t[0] == "f" else 2
    matrix(t, "zstd", p, "tile", "pixel", "le")
    matrix(t, "zstd", p, "strip", "pixel", "be", big=True)
    matrix(t, "none", 1, "strip", "pixel", "be")
    matrix(t, "none", 1, "tile", "band", "le", big=True)
    matrix(t, "lzw", 1, "tile", "band", "be", big=True)
    matrix(t, "deflate", 2, "strip", "pixel", "be")
matrix("f64", "zstd", 3, "tile", "band", "be")
matrix("u8", "lzw", 1, "strip", "pixel", "le")


def create(name, t, bands=1, opts=(), w=W, h=H):
    return gdal.GetDriverByName("GTiff").Create(name, w, h, bands, TYPES[t], list(opts))


def epsg(code):
    srs = osr.SpatialReference()
    srs.ImportFromEPSG(code)
    return srs


# A full set of metadata, with nodata on the pixels whose base value is 0.
ds = create("meta.tif", "i16", 2, ["COMPRESS=LZW"])
ds.SetSpatialRef(epsg(32633))
ds.SetGeoTransform([399960, 30, 0, 4500000, 0, -30])
ds.SetMetadata({"ACQUIRED": "2020-06-01", "NOTE": "a < b & c"})
for b in range(2):
    band = ds.GetRasterBand(b + 1)
    v = pattern("i16", b)
    v[base(b) == 0] = -9999
    band.WriteArray(v)
    band.SetNoDataValue(-9999)
    band.SetDescription(["LST_Day", "QC"][b])
ds.GetRasterBand(1).SetScale(0.02)
ds.GetRasterBand(1).SetOffset(-273.15)
ds.GetRasterBand(1).SetUnitType("K")
ds.GetRasterBand(2).SetMetadata({"wavelength": "10.8"})
ds = None

# An internal 1-bit mask: pixels with x + y even are valid.
gdal.SetConfigOption("GDAL_TIFF_INTERNAL_MASK", "YES")
ds = create("mask.tif", "u8", 1, ["COMPRESS=DEFLATE"])
ds.GetRasterBand(1).WriteArray(pattern("u8", 0))
ds.CreateMaskBand(gdal.GMF_PER_DATASET)
y, x = np.mgrid[0:H, 0:W]
ds.GetRasterBand(1).GetMaskBand().WriteArray(np.where((x + y) % 2 == 0, 255, 0).astype(np.uint8))
ds = None

# Red, green, blue and alpha; alpha is 0 where x < 10.
ds = create("alpha.tif", "u8", 4, ["COMPRESS=LZW", "PHOTOMETRIC=RGB", "ALPHA=YES"])
for b in range(3):
    ds.GetRasterBand(b + 1).WriteArray(pattern("u8", b))
ds.GetRasterBand(4).WriteArray(np.where(x < 10, 0, 200).astype(np.uint8))
ds = None

# Only the first tile is stored; the others read as nodata.
ds = create("sparse.tif", "f32", 1, ["SPARSE_OK=TRUE", "TILED=YES", "BLOCKXSIZE=16", "BLOCKYSIZE=16", "COMPRESS=DEFLATE"])
ds.GetRasterBand(1).SetNoDataValue(-1)
ds.GetRasterBand(1).WriteArray(pattern("f32", 0)[:16, :16].copy())
ds = None

# MODIS's sinusoidal grid has no EPSG code.
ds = create("sinusoidal.tif", "u8", 1, ["COMPRESS=LZW"])
srs = osr.SpatialReference()
srs.ImportFromProj4("+proj=sinu +lon_0=0 +x_0=0 +y_0=0 +R=6371007.181 +units=m +no_defs")
ds.SetSpatialRef(srs)
ds.SetGeoTransform([-8895604.157, 926.625433, 0, 4447802.079, 0, -926.625433])
ds.GetRasterBand(1).WriteArray(pattern("u8", 0))
ds = None

# The same place with pixels as points, and a rotated raster.
ds = create("point.tif", "u8", 1, ["COMPRESS=LZW"])
ds.SetMetadataItem("AREA_OR_POINT", "Point")
ds.SetSpatialRef(epsg(4326))
ds.SetGeoTransform([10, 0.5, 0, 50, 0, -0.25])
ds.GetRasterBand(1).WriteArray(pattern("u8", 0))
ds = None
ds = create("rotated.tif", "u8", 1, ["COMPRESS=LZW"])
ds.SetSpatialRef(epsg(32633))
ds.SetGeoTransform([500000, 8, 6, 4000000, 6, -8])
ds.GetRasterBand(1).WriteArray(pattern("u8", 0))
ds = None

# A nodata value that no float64 holds: the largest int64, on the pixels of base value 0.
ds = create("nodata64.tif", "i64", 1, ["COMPRESS=DEFLATE"])
v = pattern("i64", 0)
v[base(0) == 0] = 2**63 - 1
v[base(0) == 1] = 2**63 - 2
ds.GetRasterBand(1).WriteArray(v)
ds.GetRasterBand(1).SetNoDataValue(2**63 - 1)
ds = None

# A cloud-optimised file with overviews and a mask that has overviews too.
ds = gdal.GetDriverByName("MEM").Create("", 300, 200, 1, gdal.GDT_UInt16)
y, x = np.mgrid[0:200, 0:300]
ds.GetRasterBand(1).WriteArray((x + y).astype(np.uint16))
ds.CreateMaskBand(gdal.GMF_PER_DATASET)
ds.GetRasterBand(1).GetMaskBand().WriteArray(np.where(x < 150, 255, 0).astype(np.uint8))
gdal.GetDriverByName("COG").CreateCopy("cog.tif", ds, options=["BLOCKSIZE=128", "COMPRESS=ZSTD", "PREDICTOR=YES"])
