package stac

// PublicCollections are the collections and assets under which the large public
// APIs (Microsoft Planetary Computer, Element 84 Earth Search) offer products of
// the table. An API with other names, or one that wants a token or signed
// addresses, needs a Config of its own.
func PublicCollections() map[string]Collection {
	platform := func(p string) map[string]map[string]any { return map[string]map[string]any{"platform": {"eq": p}} }
	oli := map[string]string{"SR_B1": "coastal", "SR_B2": "blue", "SR_B3": "green", "SR_B4": "red", "SR_B5": "nir08",
		"SR_B6": "swir16", "SR_B7": "swir22", "ST_B10": "lwir11", "ST_EMIS": "emis", "QA_PIXEL": "qa_pixel"}
	tm := map[string]string{"SR_B1": "blue", "SR_B2": "green", "SR_B3": "red", "SR_B4": "nir08",
		"SR_B5": "swir16", "SR_B7": "swir22", "ST_B6": "lwir", "QA_PIXEL": "qa_pixel"}
	return map[string]Collection{
		"LANDSAT/LC09/C02/T1_L2":      {ID: "landsat-c2-l2", Query: platform("landsat-9"), Assets: oli},
		"LANDSAT/LC08/C02/T1_L2":      {ID: "landsat-c2-l2", Query: platform("landsat-8"), Assets: oli},
		"LANDSAT/LE07/C02/T1_L2":      {ID: "landsat-c2-l2", Query: platform("landsat-7"), Assets: tm},
		"LANDSAT/LT05/C02/T1_L2":      {ID: "landsat-c2-l2", Query: platform("landsat-5"), Assets: tm},
		"COPERNICUS/S2_SR_HARMONIZED": {ID: "sentinel-2-l2a"},
		"MODIS/061/MOD11A1":           {ID: "modis-11A1-061", Query: platform("terra")},
		"MODIS/061/MYD11A1":           {ID: "modis-11A1-061", Query: platform("aqua")},
		"MODIS/061/MOD11A2":           {ID: "modis-11A2-061", Query: platform("terra")},
		"MODIS/061/MYD11A2":           {ID: "modis-11A2-061", Query: platform("aqua")},
		"MODIS/061/MOD13Q1":           {ID: "modis-13Q1-061", Query: platform("terra"), Assets: map[string]string{"NDVI": "250m_16_days_NDVI", "EVI": "250m_16_days_EVI"}},
		"MODIS/061/MYD13Q1":           {ID: "modis-13Q1-061", Query: platform("aqua"), Assets: map[string]string{"NDVI": "250m_16_days_NDVI", "EVI": "250m_16_days_EVI"}},
	}
}
