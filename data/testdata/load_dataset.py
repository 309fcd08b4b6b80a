"""Reads a dataset folder as a trainer would: prints one JSON object of what it saw.

Usage: load_dataset.py DIR CACHE
"""
import json
import sys

import datasets
import pyarrow.parquet

datasets.disable_progress_bars()
directory, cache = sys.argv[1:]
seen = {"default": None, "configs": {}, "trl": True, "steps": None}
for config in datasets.get_dataset_config_names(directory):
    loaded = datasets.load_dataset(directory, config, cache_dir=cache)
    seen["configs"][config] = {split: len(rows) for split, rows in loaded.items()}
    if config == "trajectories":
        seen["steps"] = loaded["train"][1]["steps"]
        continue
    for rows in loaded.values():
        for row in rows:
            prompt, completion = row["prompt"], row["completion"]
            roles = [m["role"] for m in prompt] + [m["role"] for m in completion]
            if roles != ["system", "user", "assistant"] or set(prompt[0]) != {"role", "content"}:
                seen["trl"] = False
            if config == "executor" and json.loads(completion[0]["content"]) != json.loads(row["reference"]):
                seen["trl"] = False
seen["default"] = sorted(datasets.load_dataset(directory, cache_dir=cache)["train"].column_names)
table = pyarrow.parquet.read_table(f"{directory}/executor", columns=["node", "tool"])
seen["arrow_rows"] = table.num_rows
print(json.dumps(seen))
