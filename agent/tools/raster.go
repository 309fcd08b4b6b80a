package tools

import "maps"

// rasterProducts are the tools that make one raster of several.
var rasterProducts = []map[string]*product{indexProducts, retrievals, microwave, maskProducts, mathProducts}

// rasterFuncs are the tools that need imagery but no model and no archive.
var rasterFuncs = func() map[string]Func {
	all := map[string]Func{
		"apply_scale_offset":             scaleOffset.run,
		"extract_brightness_temperature": brightnessTemperature.run,
	}
	for _, products := range rasterProducts {
		for name, p := range products {
			all[name] = p.run
		}
	}
	for _, tools := range []map[string]Func{rasterStatTools, thresholdTools, hotspotTools} {
		maps.Copy(all, tools)
	}
	return all
}()
