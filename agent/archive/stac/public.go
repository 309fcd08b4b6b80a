package stac

import "maps"

// PublicCollections are the collections and assets under which the large public
// APIs offer products of the table: Landsat and Sentinel-2 at Microsoft Planetary
// Computer and Element 84 Earth Search, which share these names, MODIS and ASTER
// at Planetary Computer alone. Sources: the collection templates of
// microsoft/planetary-computer-tasks and the README of Element84/earth-search.
//
// Left out is what an API has in another form: fires, of which an item holds eight
// days as bands; Sentinel-1, which is in amplitudes of the slant grid or flattened
// by terrain; and elevation other than SRTM. VIIRS night lights, SMAP, GPM daily,
// CHIRPS and GHSL are at neither. An API with other names, or one that wants a
// token or signed addresses, needs a Config of its own.
func PublicCollections() map[string]Collection {
	msi := map[string]string{"B2": "B02", "B3": "B03", "B4": "B04", "B5": "B05", "B6": "B06", "B7": "B07", "B8": "B08"} // Earth Search's keys are the aliases
	landsat := func(platform string, assets map[string]string) Collection {
		return Collection{ID: "landsat-c2-l2", Query: map[string]map[string]any{"platform": {"eq": platform}}, Assets: assets}
	}
	oli := map[string]string{"SR_B1": "coastal", "SR_B2": "blue", "SR_B3": "green", "SR_B4": "red", "SR_B5": "nir08",
		"SR_B6": "swir16", "SR_B7": "swir22", "ST_B10": "lwir11", "ST_EMIS": "emis", "QA_PIXEL": "qa_pixel"}
	tm := map[string]string{"SR_B1": "blue", "SR_B2": "green", "SR_B3": "red", "SR_B4": "nir08",
		"SR_B5": "swir16", "SR_B7": "swir22", "ST_B6": "lwir", "QA_PIXEL": "qa_pixel"}
	out := map[string]Collection{
		"LANDSAT/LC09/C02/T1_L2":      landsat("landsat-9", oli),
		"LANDSAT/LC08/C02/T1_L2":      landsat("landsat-8", oli),
		"LANDSAT/LE07/C02/T1_L2":      landsat("landsat-7", tm),
		"LANDSAT/LT05/C02/T1_L2":      landsat("landsat-5", tm),
		"COPERNICUS/S2_SR_HARMONIZED": {ID: "sentinel-2-l2a", Assets: msi},
		"ASTER/AST_L1T_003":           {ID: "aster-l1t", Assets: map[string]string{"B10": "TIR_Band10", "B11": "TIR_Band11", "B12": "TIR_Band12", "B13": "TIR_Band13", "B14": "TIR_Band14"}},
		"MODIS/061/MCD43A4":           {ID: "modis-43A4-061"},
	}
	state := map[string]string{"StateQA": "sur_refl_state_500m"}
	maps.Copy(out, modis("11A1", nil, "MOD", "MYD"))
	maps.Copy(out, modis("11A2", nil, "MOD", "MYD"))
	maps.Copy(out, modis("13Q1", vegetation("250m_16_days_"), "MOD", "MYD"))
	maps.Copy(out, modis("13A1", vegetation("500m_16_days_"), "MOD"))
	maps.Copy(out, modis("09A1", state, "MOD", "MYD"))
	maps.Copy(out, modis("09Q1", nil, "MOD"))
	maps.Copy(out, modis("10A1", nil, "MOD"))
	return out
}

// modis maps the products of both satellites to their common collection. The
// items' IDs tell them apart; not all have the property platform.
func modis(name string, assets map[string]string, satellites ...string) map[string]Collection {
	out := map[string]Collection{}
	for _, s := range satellites {
		out["MODIS/061/"+s+name] = Collection{ID: "modis-" + name + "-061", Prefix: s, Assets: assets}
	}
	return out
}

// vegetation are the assets of a collection of vegetation indices.
func vegetation(prefix string) map[string]string {
	return map[string]string{"NDVI": prefix + "NDVI", "EVI": prefix + "EVI", "sur_refl_b01": prefix + "red_reflectance", "sur_refl_b02": prefix + "NIR_reflectance",
		"sur_refl_b03": prefix + "blue_reflectance", "sur_refl_b07": prefix + "MIR_reflectance", "SummaryQA": prefix + "pixel_reliability"}
}
