"""Golden blocks for the decoders: python make_blocks.py blocks.safetensors

Needs gguf 0.19.0 (its numpy dequantiser is the reference), ml_dtypes, numpy and safetensors. TYPE.raw holds random bytes with
finite half-precision scales, TYPE.f32 what they mean. The F8 types are all 256 bytes.
"""
import sys

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

# offsets of the half-precision scales inside a block
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}

rng = np.random.default_rng(20)
out = {}
for name, offsets in SCALES.items():
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    count = 1024 // block
    raw = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in offsets:
        raw[:, at:at + 2] = rng.normal(0, 0.05, (count, 1)).astype(np.float16).view(np.uint8)
    out[name + ".raw"] = raw
    out[name + ".f32"] = gguf.quants.dequantize(raw, kind).astype(np.float32)
every = np.arange(256, dtype=np.uint8)
for name, dtype in {"F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E8M0": ml_dtypes.float8_e8m0fnu}.items():
    out[name + ".raw"] = every
    out[name + ".f32"] = every.view(dtype).astype(np.float32)
save_file(out, sys.argv[1])
