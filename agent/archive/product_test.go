package archive

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/raster"
	"terraloom/data/strictyaml"
)

// What the real benchmark's files need must be in the table.
func TestTableHasTheProductsOfTheSeeds(t *testing.T) {
	needs := map[string][]string{
		"MOD11A1": {"LST_Day_1km", "LST_Night_1km", "QC_Day", "Emis_31", "Emis_32"}, "MYD11A1": {"LST_Day_1km"}, "MOD11A2": {"LST_Day_1km"},
		"MOD11_L2": {"Emis31", "Emis32", "LST"}, "MYD11_L2": {"Emis31"},
		"MOD13Q1": {"NDVI", "EVI", "SummaryQA"}, "MYD13Q1": {"NDVI"}, "MOD13A1": {"NDVI"}, "MOD13A2": {"NDVI"},
		"MOD09GA": {"sur_refl_b01", "sur_refl_b02", "sur_refl_b03", "sur_refl_b04", "sur_refl_b06", "sur_refl_b07", "state_1km"},
		"MOD09A1": {"sur_refl_b01", "sur_refl_b07", "StateQA"}, "MCD43A4": {"Nadir_Reflectance_Band1", "sur_refl_b06"}, "MCD43A3": {"albedo"},
		"MOD021KM": {"Reflectance_2", "Reflectance_5", "Reflectance_17", "Reflectance_18", "Reflectance_19", "Radiance_31_Day", "Radiance_32_Day", "Radiance_31_Night"},
		"MOD14A1":  {"MaxFRP", "FireMask"}, "MYD14A1": {"MaxFRP"}, "MOD10A1": {"NDSI_Snow_Cover"},
		"Landsat 8": {"SR_B2", "SR_B3", "SR_B4", "SR_B5", "SR_B6", "SR_B7", "ST_B10", "QA_PIXEL"}, "Landsat 9": {"ST_B10"},
		"Landsat 5": {"SR_B3", "SR_B5", "QA_PIXEL"}, "Landsat 7": {"SR_B3", "SR_B5"}, "LC08_TOA": {"B4", "B5", "BT10"}, "LC08_L1": {"B10", "B11"},
		"Sentinel-1": {"VV", "VH"}, "Sentinel-2": {"B2", "B3", "B4", "B8", "B11", "B12", "SCL"},
		"VIIRS nighttime lights": {"avg_rad"}, "ASTER": {"B10", "B11", "B12", "B13", "B14"}, "SMAP": {"soil_moisture_am"},
		"GPM IMERG": {"precipitation"}, "CHIRPS": {"precipitation"},
		"GHS_BUILT_V": {"built_volume_total", "built_volume_nres"}, "GHS_BUILT_S": {"built_surface", "built_surface_nres"},
	}
	for name, bands := range needs {
		p, ok := FindProduct(Products(), name)
		if !ok {
			t.Errorf("no product %q", name)
			continue
		}
		for _, b := range bands {
			if _, ok := p.Band(b); !ok {
				t.Errorf("%s has no band %s", p.ID, b)
			}
		}
	}
}

func TestTableFacts(t *testing.T) {
	tests := []struct {
		product, band  string
		typ            raster.DataType
		scale, offset  float64
		fill, lo, hi   float64
		unit           string
		resolution     float64
		start, cadence string
	}{
		{"MOD11A1", "LST_Day_1km", raster.Uint16, 0.02, 0, 0, 7500, 65535, "K", 1000, "2000-02-24", "day"},
		{"MYD11A1", "Emis_31", raster.Uint8, 0.002, 0.49, 0, 1, 255, "1", 1000, "2002-07-04", "day"},
		{"MOD13Q1", "NDVI", raster.Int16, 0.0001, 0, -3000, -2000, 10000, "1", 250, "2000-02-18", "16 days"},
		{"MOD09A1", "sur_refl_b01", raster.Int16, 0.0001, 0, -28672, -100, 16000, "1", 500, "2000-02-18", "8 days"},
		{"MCD43A3", "Albedo_WSA_shortwave", raster.Int16, 0.001, 0, 32767, 0, 32766, "1", 500, "2000-02-24", "day"},
		{"LC08_L2", "SR_B4", raster.Uint16, 2.75e-5, -0.2, 0, 1, 65535, "1", 30, "2013-03-18", "day"},
		{"LC09_L2", "ST_B10", raster.Uint16, 0.00341802, 149, 0, 1, 65535, "K", 30, "2021-10-31", "day"},
		{"ASTER", "B13", raster.Uint16, 0.005693, -0.005693, 0, 1, 4095, "W/m²/sr/µm", 90, "2000-03-04", "day"},
		{"GPM", "precipitation", raster.Float32, 1, 0, -9999.9, 0, 2000, "mm", 11132, "2000-06-01", "day"},
	}
	for _, tt := range tests {
		p, _ := FindProduct(Products(), tt.product)
		b, ok := p.Band(tt.band)
		if !ok {
			t.Fatalf("%s %s is missing", tt.product, tt.band)
		}
		if b.Type != tt.typ || b.Scale != tt.scale || b.Offset != tt.offset || b.Fill == nil || *b.Fill != tt.fill || b.Valid != [2]float64{tt.lo, tt.hi} ||
			b.Unit != tt.unit || p.Resolution != tt.resolution || p.Start.Format("2006-01-02") != tt.start || p.Step().String() != tt.cadence {
			t.Errorf("%s %s is %+v of %+v, want %+v", tt.product, tt.band, b, p, tt)
		}
	}
}

// The flag values are those that the products' guides give for usual pixels.
func TestFlagBits(t *testing.T) {
	p, _ := FindProduct(Products(), "LC08_L2")
	qa, _ := p.Band("QA_PIXEL")
	tests := []struct {
		value int
		set   []string
		conf  int
	}{
		{21824, []string{"clear"}, 1},
		{21952, []string{"clear", "water"}, 1},
		{22280, []string{"cloud"}, 3},
		{23888, []string{"clear", "cloud shadow"}, 1},
	}
	for _, tt := range tests {
		for _, name := range []string{"fill", "dilated cloud", "cirrus", "cloud", "cloud shadow", "snow", "clear", "water"} {
			f, ok := qa.Bit(name)
			if !ok {
				t.Fatalf("QA_PIXEL has no bit %q", name)
			}
			if got := f.Get(tt.value) == 1; got != slices.Contains(tt.set, name) {
				t.Errorf("bit %q of %d is %v", name, tt.value, got)
			}
		}
		if f, _ := qa.Bit("cloud confidence"); f.Get(tt.value) != tt.conf || f.Put(tt.conf) != tt.conf<<8 {
			t.Errorf("cloud confidence of %d is %d, want %d", tt.value, f.Get(tt.value), tt.conf)
		}
	}
}

func TestStored(t *testing.T) {
	p, _ := FindProduct(Products(), "MOD11A1")
	lst, _ := p.Band("LST")
	for physical, want := range map[float64]float64{300: 15000, 300.011: 15001, 100: 7500, 2000: 65535} {
		if got := lst.Stored(physical); got != want {
			t.Errorf("LST %g K is stored as %g, want %g", physical, got, want)
		}
	}
	if got := lst.Stored(math.NaN()); got == got {
		t.Errorf("NaN is stored as %g", got)
	}
}

// Planck's constants of a band without its own give the brightness temperature
// back from the radiance of a black body.
func TestThermalConstants(t *testing.T) {
	p, _ := FindProduct(Products(), "MOD021KM")
	b, _ := p.Band("Radiance_31_Day")
	l := b.K1 / (math.Exp(b.K2/300) - 1)
	if math.Abs(l-9.55) > 0.1 { // B(11.03 µm, 300 K)
		t.Errorf("radiance of 300 K is %g W/m²/sr/µm", l)
	}
	if v := b.Stored(l); v < 10000 || v > b.Valid[1] {
		t.Errorf("300 K is stored as %g", v)
	}
}

func TestBadTables(t *testing.T) {
	const head = "products:\n- {id: A, title: a, platform: p, sensor: s, resolution: 10, start: 2000-01-01, end: 2001-01-01, cadence: day, bands: "
	const band = "{name: x, title: x, type: uint8, measures: NDVI}"
	for _, tt := range []struct{ yaml, want string }{
		{head + "[{name: x, title: x, type: uint9, measures: NDVI}]}", `type "uint9"`},
		{head + "[{name: x, title: x, type: uint8, fill: 300, measures: NDVI}]}", "fill 300 does not fit"},
		{head + "[{name: x, title: x, type: uint8, fill: 5, valid: [0, 9], measures: NDVI}]}", "fill 5 lies in the valid range"},
		{head + "[{name: x, title: x, type: uint8, valid: [0, 999], measures: NDVI}]}", "valid range"},
		{head + "[{name: x, title: x, type: uint8, measures: greenness}]}", `measures "greenness"`},
		{head + "[{name: x, title: x, type: uint8, measures: quality, bits: [{at: 7-8, name: c}]}]}", `"7-8"`},
		{head + "[{name: x, title: x, type: uint8, measures: quality, bits: [{at: 1-2, name: c}, {at: 2, name: d}]}]}", "used already"},
		{head + "[{name: x, title: x, type: uint8, measures: surface reflectance}]}", "wavelength"},
		{head + "[" + band + "], colour: red}", `unknown key "products.colour"`},
		{head + "[" + band + ", {name: y, aliases: [X], title: x, type: uint8, measures: NDVI}]}", "is used by x and y"},
		{head + "[" + band + "], revisit: 16}", "exactly one of"},
		{head + "[" + band + "]}\n- {id: B, aliases: [a], like: A}", `the name "a" belongs to A`},
		{"products:\n- {id: B, like: A}", `no product "A"`},
		{strings.Replace(head, "2000-01-01", "1-1-2000", 1) + "[" + band + "]}", "no date"},
		{strings.Replace(head, "cadence: day", "cadence: sometimes", 1) + "[" + band + "]}", "no interval"},
	} {
		_, err := parseProducts([]byte(tt.yaml), "t.yaml")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\ngives %v, want %q", tt.yaml, err, tt.want)
		}
	}
	if _, err := parseProducts([]byte("products: {"), "t.yaml"); !errors.Is(err, strictyaml.ErrConfig) {
		t.Errorf("broken YAML gives %v", err)
	}
}
