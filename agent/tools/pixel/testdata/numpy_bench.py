"""Times NumPy on the rasters of a folder: medians in seconds, as JSON."""
import json, sys, time
from pathlib import Path

import numpy as np

folder, side, runs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
load = lambda name: np.fromfile(folder / name, dtype="<f4").reshape(side, side)
nir, red, ndvi, lst = (load(n) for n in ("nir", "red", "ndvi", "lst"))
series = np.fromfile(folder / "series", dtype="<f8")


def mean():
    return np.nanmean(lst, dtype=np.float64)


def index():
    return (nir - red) / (nir + red)


def threshold_ratio():
    return np.count_nonzero(lst > 300) / np.count_nonzero(np.isfinite(lst))


def tvdi(bins=100):
    with np.errstate(invalid="ignore"):
        valid = (ndvi >= 0) & (ndvi <= 1) & (lst > 0)
    n, t = ndvi[valid], lst[valid]
    lo, hi = n.min(), n.max()
    at = np.minimum(((n - lo) * (bins / (hi - lo))).astype(np.int32), bins - 1)
    least, most = np.full(bins, np.inf, np.float32), np.full(bins, -np.inf, np.float32)
    np.minimum.at(least, at, t)
    np.maximum.at(most, at, t)
    used = least <= most
    x = lo + (np.arange(bins) + 0.5)[used] * (hi - lo) / bins
    dry, wet = np.polyfit(x, most[used], 1), np.polyfit(x, least[used], 1)
    bottom, top = np.polyval(wet.astype(np.float32), n), np.polyval(dry.astype(np.float32), n)
    out = np.full(lst.shape, np.nan, np.float32)
    out[valid] = np.clip((t - bottom) / (top - bottom), 0, 1)
    return out


def theil_sen():
    i, j = np.triu_indices(len(series), 1)
    return np.median((series[j] - series[i]) / (j - i))


result = {"numpy": np.__version__}
for name, f in {"mean": mean, "NDVI": index, "threshold ratio": threshold_ratio, "TVDI": tvdi, "Theil-Sen": theil_sen}.items():
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        value = f()
        times.append(time.perf_counter() - start)
    result[name] = {"seconds": sorted(times)[len(times) // 2], "value": float(np.nanmean(value, dtype=np.float64))}
print(json.dumps(result))
