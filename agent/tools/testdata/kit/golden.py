"""Runs the public tool kit on small rasters and records what it gives.

    python golden.py KIT_TOOLS_FOLDER OUT.json
"""
import sys, os, json, math, tempfile, warnings
import numpy as np, rasterio
from rasterio.transform import from_origin
warnings.filterwarnings("ignore")
kit, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(here, "shim"), kit]
work = tempfile.mkdtemp(); os.chdir(work)
os.makedirs("benchmark/data/q"); OUT = "benchmark/out"
sys.argv = ["kit", "--temp_dir", OUT]
import io, contextlib
import Index, Inversion, Perception, Analysis, Statistics
rng = np.random.default_rng(20)
W, H = 22, 17
golden = {"rasters": [], "calls": []}
def num(v):
    v = float(v)
    return "nan" if math.isnan(v) else ("inf" if v > 0 else "-inf") if math.isinf(v) else v
def flat(a): return [num(v) if a.dtype.kind == "f" else int(v) for v in a.ravel()]
def put(name, bands, nodata=None, w=None, h=None, px=30.0):
    bands = np.asarray(bands)
    if bands.ndim == 2: bands = bands[None]
    path = "benchmark/data/q/" + name
    kw = dict(nodata=nodata)
    if name.endswith(".png"): kw = {}
    else: kw.update(crs="EPSG:32633", transform=from_origin(500000, 4000000, px, px))
    with rasterio.open(path, "w", driver="PNG" if name.endswith(".png") else "GTiff", width=bands.shape[2], height=bands.shape[1],
                       count=bands.shape[0], dtype=bands.dtype.name, **kw) as d: d.write(bands)
    golden["rasters"].append({"path": path, "width": bands.shape[2], "height": bands.shape[1], "type": bands.dtype.name,
        "nodata": num(nodata) if nodata is not None else None, "pixel": px, "bands": [flat(b) for b in bands]})
    return path
def f32(a): return a.astype(np.float32)
def holes(a, v, k=5):
    a = a.copy(); a.ravel()[rng.choice(a.size, k, replace=False)] = v; return a
shape = (H, W)
nir = put("nir.tif", holes(f32(rng.uniform(.2, .6, shape)), -9999), -9999)
red = put("red.tif", holes(f32(rng.uniform(.02, .3, shape)), -9999), -9999)
blue = put("blue.tif", f32(rng.uniform(.01, .2, shape)))
green = put("green.tif", f32(rng.uniform(.02, .25, shape)))
swir = put("swir.tif", holes(f32(rng.uniform(.05, .4, shape)), np.nan, 3))
greenDN = put("green_dn.tif", holes(rng.integers(100, 9000, shape).astype(np.int16), -28672, 4), -28672)
swirDN = put("swir_dn.tif", rng.integers(-50, 11000, shape).astype(np.int16), -28672)
swirSmall = put("swir_small.tif", rng.integers(10, 9000, (9, 11)).astype(np.int16), None, px=60.0)
t31 = put("2020_01_01_1035_BT_31.tif", holes(f32(rng.uniform(262, 318, shape)), 0))
t32 = put("bt32.tif", f32(rng.uniform(262, 316, shape)))
night = put("night.tif", f32(rng.uniform(255, 290, (12, 15))), None, px=44.0)
nightBig = put("night_big.tif", f32(rng.uniform(255, 290, (40, 51))), None, px=13.0)
e31 = put("e31.tif", rng.integers(180, 255, shape).astype(np.uint8), 0)
e32 = put("e32.tif", rng.integers(180, 255, shape).astype(np.uint8), 0)
e31n = put("e31n.tif", rng.integers(180, 255, (12, 15)).astype(np.uint8), 0, px=44.0)
albedo = put("albedo.tif", f32(rng.uniform(.05, .5, shape)))
ndviDN = put("ndvi_dn.tif", holes(rng.integers(-500, 9500, shape).astype(np.int16), -3000, 6), -3000)
lstDN = put("lst_dn.tif", holes(rng.integers(13500, 16000, shape).astype(np.uint16), 0, 6), 0)
tir = [put("2022_06_15_BT_%d.tif" % (10 + k), holes(f32(rng.uniform(285, 287, shape) + .3 * k), -1 if k == 2 else 0, 2)) for k in range(5)]
pos = put("pos.tif", holes(f32(rng.uniform(-3, 60, shape)), np.inf, 2), None)
ints = put("ints.tif", rng.integers(0, 200, shape).astype(np.uint16), 0)
multi = put("multi.tif", np.stack([holes(f32(rng.uniform(0, 1, shape)), -1, 4) for _ in range(3)]), -1)
rgb = put("rgb.tif", rng.integers(0, 255, (3, H, W)).astype(np.uint8))
big = put("big.tif", holes(f32(rng.normal(290, 8, (60, 70))), np.nan, 50))
flat_ = put("flat.tif", np.full(shape, 7.5, np.float32))
binary = put("binary.tif", f32(rng.random(shape) < .3))
qa = put("qa.tif", rng.integers(0, 70, shape).astype(np.uint16))
dn = put("sr.tif", holes(rng.integers(7300, 40000, shape).astype(np.uint16), 0, 5), 0)
tvdi = put("2020_01_01_1035_tvdi.tif", f32(rng.uniform(-.1, 1.1, shape)))
hv = put("h.tif", f32(rng.uniform(100, 250, shape))); vv = put("v.tif", f32(rng.uniform(120, 280, shape)))
vvd = put("vv_db.tif", f32(rng.uniform(-15, -3, shape))); vhd = put("vh_db.tif", f32(rng.uniform(-22, -9, shape)))
freq = put("freq.tif", f32(rng.uniform(.2, 1.4, shape)), None)
def blobs(w, h, n):
    m = np.zeros((h, w), np.uint8)
    for _ in range(n):
        x, y = rng.integers(0, w - 6), rng.integers(0, h - 6); a, b = rng.integers(3, 16, 2)
        m[y:y + b, x:x + a] = 255
    for _ in range(n):
        x, y = rng.integers(2, w - 8), rng.integers(2, h - 8); m[y:y + 3, x:x + 4] = 0
    return m
masks = [put("mask%d.png" % i, blobs(64, 48, 4 + 3 * i)) for i in range(8)]
thin = [put("thin%d.png" % i, (rng.random((30, 40)) < .8 + .02 * i).astype(np.uint8) * 255) for i in range(6)]
def files():
    return {os.path.join(d, f) for d, _, fs in os.walk(OUT) for f in fs}
def call(module, name, **args):
    before = files()
    for f in before: os.remove(f)
    rec = {"tool": name, "args": args}
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            r = getattr(module, name)(**args)
            import gc; gc.collect()
            def plain(v):
                if isinstance(v, (list, tuple)): return [plain(x) for x in v]
                if isinstance(v, (float, np.floating)):
                    v = float(v); return "NaN" if math.isnan(v) else ("Infinity" if v > 0 else "-Infinity") if math.isinf(v) else v
                if isinstance(v, np.integer): return int(v)
                return v
            rec["output"] = plain(r)
        except Exception as e:
            rec["error"] = type(e).__name__ + ": " + str(e)[:150]
    rec["files"] = []
    for p in sorted(files()):
        with rasterio.open(p) as s:
            rec["files"].append({"path": p, "type": s.dtypes[0], "nodata": num(s.nodata) if s.nodata is not None else None,
                "width": s.width, "height": s.height, "bands": [flat(s.read(i + 1)) for i in range(s.count)]})
    golden["calls"].append(rec)
X, I, P, A, S = Index, Inversion, Perception, Analysis, Statistics
o = lambda n="x": "q/%s.tif" % n
call(X, "calculate_batch_ndvi", input_nir_paths=[nir, greenDN], input_red_paths=[red, swirDN], output_paths=[o("a"), o("b")])
call(X, "calculate_batch_ndvi", input_nir_paths=[nir, greenDN], input_red_paths=[red], output_paths=[o("a"), o("b")])
call(X, "calculate_batch_ndwi", input_nir_paths=[nir], input_swir_paths=[swir], output_paths=[o()])
call(X, "calculate_batch_ndbi", input_swir_paths=[swir], input_nir_paths=[nir], output_paths=[o()])
call(X, "calculate_batch_evi", input_nir_paths=[nir], input_red_paths=[red], input_blue_paths=[blue], output_paths=[o()])
call(X, "calculate_batch_nbr", input_nir_paths=[nir], input_swir_paths=[swir], output_paths=[o()])
call(X, "calculate_batch_fvc", input_nir_paths=[nir], input_red_paths=[red], output_paths=[o()], ndvi_min=.05)
call(X, "calculate_batch_wri", input_green_paths=[green], input_red_paths=[red], input_nir_paths=[nir], input_swir_paths=[swir], output_paths=[o()])
call(X, "calculate_batch_ndti", input_red_paths=[red], input_green_paths=[green], output_paths=[o()])
call(X, "calculate_batch_frp", input_frp_paths=[pos], output_paths=[o()], fire_threshold=30.5)
call(X, "calculate_batch_ndsi", green_file_list=[greenDN], swir_file_list=[swirDN], output_path_list=[o()])
call(X, "calculate_batch_ndsi", green_file_list=[greenDN], swir_file_list=[swirSmall], output_path_list=[o()])
call(X, "calc_extreme_snow_loss_percentage_from_binary_map", binary_map_path=binary)
call(X, "calc_extreme_snow_loss_percentage_from_binary_map", binary_map_path=masks[0])
call(X, "compute_tvdi", ndvi_path=ndviDN, lst_path=lstDN, output_path=o())
call(X, "compute_tvdi", ndvi_path=nir, lst_path=t31, output_path=o())
call(I, "band_ratio", sur_refl_b02_path=nir, sur_refl_b05_path=swir, sur_refl_b17_path=red, sur_refl_b18_path=green, sur_refl_b19_path=blue, output_path=o())
call(I, "lst_single_channel", bt_path=t31, red_path=red, nir_path=nir, output_path=o())
call(I, "lst_multi_channel", band31_path=t31, band32_path=t32, output_path=o())
for k in ("LST", "PWV"):
    call(I, "split_window", band31_path=t31, band32_path=t32, emissivity31_path=e31, emissivity32_path=e32, parameter=k, output_path=o())
call(I, "temperature_emissivity_separation", tir_band_paths=tir, representative_band_index=3, output_path=o())
call(I, "modis_day_night_lst", BT_day_path=t31, BT_night_path=night, Emis_day_path=e31, Emis_night_path=e31n, output_path=o())
call(I, "ttm_lst", tir_band_paths=tir[:3], output_path=o())
call(I, "calculate_mean_lst_by_ndvi", red_paths=[red, red], nir_paths=[nir, nir], lst_paths=[t31, t32], ndvi_threshold=.5, mode="above")
call(I, "calculate_mean_lst_by_ndvi", red_paths=red, nir_paths=nir, lst_paths=t31, ndvi_threshold=.4, mode="below")
call(I, "calculate_mean_lst_by_ndvi", red_paths=red, nir_paths=nir, lst_paths=t31, ndvi_threshold=40, mode="above")
call(I, "calculate_max_lst_by_ndvi", red_path=red, nir_path=nir, lst_path=t31, ndvi_threshold=.5, mode="above")
call(I, "ATI", day_temp_path=t31, night_temp_path=t32, albedo_path=albedo, output_path=o())
call(I, "ATI", day_temp_path=t31, night_temp_path=night, albedo_path=albedo, output_path=o())
call(I, "ATI", day_temp_path=t31, night_temp_path=nightBig, albedo_path=albedo, output_path=o())
for k in ("soil_moisture", "vegetation_index"):
    call(I, "dual_polarization_differential", pol1_path=vvd, pol2_path=vhd, parameter=k, output_path=o())
call(I, "dual_polarization_differential", pol1_path=vv, pol2_path=hv, parameter="soil_moisture", output_path=o(), input_unit="linear")
call(I, "dual_frequency_diff", band1_path=nir, band2_path=red, parameter="SM", alpha=.7, beta=.1, output_path=o())
call(I, "multi_freq_bt", bt_paths=[nir, red, freq, blue], diff_pairs=[[0, 1], [2, 3]], parameter="VWC", output_path=o())
call(I, "chang_single_param_inversion", bt_paths=[nir, red, freq, blue], diff_pairs=[[0, 1], [2, 3], [1, 2]], parameter="SM", output_path=o())
call(I, "nasa_team_sea_ice_concentration", bt_paths={"19V": vv, "19H": hv, "37V": t31, "37H": t32}, output_path=o())
for k in ("VWC", "SM"):
    call(I, "dual_polarization_ratio", bt_paths={"V": vv, "H": hv}, parameter=k, output_path=o())
call(I, "calculate_water_turbidity_ntu", input_red_path=red, output_path=o())
call(I, "calculate_water_turbidity_ntu", input_red_path=red, output_path=o(), method="power", a=100, b=2, n=1.3)
call(I, "calculate_water_turbidity_ntu", input_red_path=red, output_path=o(), method="log", a=5, b=20)
call(P, "threshold_segmentation", input_image_path=pos, threshold=20.5, output_path=o())
call(P, "threshold_segmentation", input_image_path=nir, threshold=.4, output_path=o())
call(P, "count_above_threshold", file_path=pos, threshold=20)
call(P, "count_above_threshold", file_path=ints, threshold=99.5)
for m in masks + thin: call(P, "count_skeleton_contours", image_path=m)
call(A, "getis_ord_gi_star", image_path=swir, weight_matrix=[[1, 2, 1], [0, 3, 2], [1, 1, 0]], output_path=o())
call(A, "getis_ord_gi_star", image_path=big, weight_matrix=[[1, 2], [0, 3]], output_path=o())
call(A, "analyze_hotspot_direction", hotspot_map_path=binary)
call(A, "analyze_hotspot_direction", hotspot_map_path=masks[0])
images = [nir, pos, ints, multi, rgb, big, flat_, binary]
for k in ("mean", "std", "median", "min", "max", "skewness", "kurtosis", "sum"):
    call(S, "calc_batch_image_" + k, file_list=images)
    call(S, "calc_batch_image_" + k, file_list=images, uint8=True)
call(S, "calc_batch_image_hotspot_percentage", file_list=images, threshold=.3)
call(S, "calc_batch_image_hotspot_percentage", file_list=images, threshold=120.5, uint8=True)
call(S, "calc_batch_image_hotspot_tif", file_list=[nir, ints], threshold=.4, output_path_list=[o("a"), o("b")])
call(S, "calc_batch_image_hotspot_tif", file_list=[swir], threshold=100, output_path_list=[o()], uint8=True)
for m in ("above", "below", "equal", "above_equal", "below_equal"):
    call(S, "calculate_threshold_ratio", image_paths=[ints, pos, big], threshold=57, mode=m)
call(S, "calculate_threshold_ratio", image_paths=multi, threshold=.3, band_index=2)
call(S, "calc_batch_fire_pixels", file_list=[pos, rgb, multi], fire_threshold=10)
call(S, "create_fire_increase_map", change_image_path=pos, output_path=o(), threshold=22)
call(S, "identify_fire_prone_areas", file_path=pos, output_path=o(), threshold_percentile=70)
call(S, "identify_fire_prone_areas", file_path=ints, output_path=o())
call(S, "identify_fire_prone_areas", file_path=ints, output_path=o(), uint8=True)
for p in (1, 37.5, 70, 100):
    call(S, "get_percentile_value_from_image", image_path=big, percentile=p)
    call(S, "get_percentile_value_from_image", image_path=ints, percentile=p)
    call(S, "get_percentile_value_from_image", image_path=pos, percentile=p)
call(S, "image_division_mean", image_path1=multi, band1=2, band2=3)
call(S, "image_division_mean", image_path1=nir, image_path2=swir)
call(S, "calculate_intersection_percentage", path1=nir, threshold1=.35, path2=red, threshold2=.1)
call(S, "calc_batch_image_mean_mean", file_list=[nir, pos, ints]); call(S, "calc_batch_image_mean_mean", file_list=[nir, pos, ints], uint8=True)
call(S, "calc_batch_image_mean_max", file_list=[nir, big, ints])
call(S, "calc_batch_image_mean_max_min", file_list=[nir, pos, big]); call(S, "calc_batch_image_mean_max_min", file_list=[nir, pos], uint8=True)
for a in (True, False):
    for r in ("ratio", "count"):
        call(S, "calc_batch_image_mean_threshold", file_list=[nir, ints, big, multi], threshold=.45, above=a, return_type=r)
call(S, "calc_batch_image_mean_threshold", file_list=[nir, ints, multi], threshold=130, uint8=True, return_type="count")
cond = [[0, .2, "above"], [2, .7, "below"]]
call(S, "calculate_multi_band_threshold_ratio", image_path=multi, band_conditions=cond)
call(S, "count_pixels_satisfying_conditions", image_path=multi, band_conditions=cond)
for m in ("above", "below"):
    call(S, "count_images_exceeding_threshold_ratio", image_paths=[nir, multi, ints], value_threshold=.3, ratio_threshold=40.0, mode=m)
    call(S, "average_ratio_exceeding_threshold", image_paths=[nir, multi, ints], value_threshold=.3, ratio_threshold=40.0, mode=m)
    call(S, "count_images_exceeding_mean_multiplier", image_paths=[nir, multi, ints, big], mean_multiplier=1.1, mode=m)
    call(S, "calculate_band_mean_by_condition", image_path=multi, condition_band_index=1, condition_threshold=.4, condition_mode=m, target_band_index=2)
call(S, "average_ratio_exceeding_threshold", image_paths=nir, value_threshold=9, ratio_threshold=40.0)
call(S, "calc_threshold_value_mean", path1=t31, path2=tvdi, threshold=300)
call(S, "calc_threshold_value_mean", path1=t31, path2=nir, threshold=300)
call(S, "calculate_tif_average", file_list=[nir, swir, red], output_path=o()); call(S, "calculate_tif_average", file_list=[multi, multi], output_path=o())
call(S, "calculate_tif_average", file_list=[ints, dn], output_path=o(), uint8=True)
call(S, "calculate_tif_difference", image_a_path=nir, image_b_path=swir, output_path=o())
call(S, "calculate_tif_difference", image_a_path=ints, image_b_path=dn, output_path=o(), uint8=True)
call(S, "subtract", img1_path=nir, img2_path=swir, output_path=o())
call(S, "calculate_area", input_image_path=rgb, gsd=None); call(S, "calculate_area", input_image_path=masks[1], gsd=.5)
call(S, "calculate_area", input_image_path=swir, gsd=None)
call(S, "radiometric_correction_sr", input_band_path=dn, output_path=o())
call(S, "apply_cloud_mask", sr_band_path=dn, qa_pixel_path=qa, output_path=o())
call(S, "get_filelist", dir_path="benchmark/data/q")
json.dump(golden, open(out, "w"), separators=(",", ":"), allow_nan=False)
print(len(golden["calls"]), "calls;", [c["tool"] + " " + c["error"] for c in golden["calls"] if "error" in c])
