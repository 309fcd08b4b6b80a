# The few calls of GDAL's Python module that the kit makes, over rasterio and gdalwarp.
import subprocess, numpy as np, rasterio
from rasterio.transform import Affine
GDT_Byte, GDT_Float32 = "uint8", "float32"
GRA_Bilinear = "bilinear"
class Band:
    def __init__(s, ds, i): s.ds, s.i = ds, i
    def ReadAsArray(s): return s.ds.src.read(s.i)
    def WriteArray(s, a): s.ds.data[s.i] = np.asarray(a)
    def SetNoDataValue(s, v): s.ds.nodata = v
class Source:
    def __init__(s, p): s.src = rasterio.open(p)
    RasterCount = property(lambda s: s.src.count)
    RasterXSize = property(lambda s: s.src.width)
    RasterYSize = property(lambda s: s.src.height)
    def GetRasterBand(s, i): return Band(s, i)
    def GetGeoTransform(s): return s.src.transform.to_gdal()
    def GetProjection(s): return s.src.crs.to_wkt() if s.src.crs else ""
class Target:
    def __init__(s, p, w, h, n, t): s.p, s.w, s.h, s.n, s.t, s.data, s.nodata, s.gt, s.prj = p, w, h, n, t, {}, None, None, ""
    def GetRasterBand(s, i): return Band(s, i)
    def SetGeoTransform(s, g): s.gt = g
    def SetProjection(s, p): s.prj = p
    def FlushCache(s): s.flush()
    def flush(s):
        if not s.data: return
        with rasterio.open(s.p, "w", driver="GTiff", width=s.w, height=s.h, count=s.n, dtype=s.t, nodata=s.nodata,
                           transform=Affine.from_gdal(*s.gt) if s.gt else None, crs=s.prj or None) as d:
            for i, a in s.data.items(): d.write(a.astype(s.t), i)
        s.data = {}
    def __del__(s): s.flush()
class Driver:
    def Create(s, p, xsize=None, ysize=None, bands=1, eType=GDT_Float32): return Target(str(p), xsize, ysize, bands, eType)
def GetDriverByName(n): return Driver()
def Open(p):
    try: return Source(p)
    except Exception: return None
def Warp(dst, src, width, height, resampleAlg):
    subprocess.run(["gdalwarp", "-q", "-overwrite", "-r", resampleAlg, "-ts", str(width), str(height), src, dst], check=True)
