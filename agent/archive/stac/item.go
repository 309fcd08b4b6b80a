package stac

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"terraloom/agent/archive"
)

// Item is a STAC item: one scene with its files.
type Item struct {
	ID         string           `json:"id"`
	Collection string           `json:"collection"`
	BBox       []float64        `json:"bbox"`
	Properties Properties       `json:"properties"`
	Assets     map[string]Asset `json:"assets"`
}

// Properties are the item's, as far as they matter here.
type Properties struct {
	Datetime   *time.Time `json:"datetime"` // null if the item has a range
	Start      *time.Time `json:"start_datetime"`
	End        *time.Time `json:"end_datetime"`
	Platform   string     `json:"platform"`
	CloudCover *float64   `json:"eo:cloud_cover"` // percent
	// Sentinel-2: processing baseline, as "05.10", and whether whoever made the file
	// has taken the offset of baseline 4 out of the numbers.
	Baseline      string `json:"s2:processing_baseline"`
	OffsetApplied *bool  `json:"earthsearch:boa_offset_applied"`
	Projection
}

// Projection are the fields of the projection extension, of an item or an asset.
type Projection struct {
	EPSG      *int      `json:"proj:epsg"`
	Code      string    `json:"proj:code"` // since version 2 of the extension: "EPSG:32633"
	Shape     []int     `json:"proj:shape"`
	Transform []float64 `json:"proj:transform"`
}

// Asset is one file of an item.
type Asset struct {
	Href     string   `json:"href"`
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Roles    []string `json:"roles"`
	EOBands  []Band   `json:"eo:bands"`
	Rasters  []Raster `json:"raster:bands"`
	Bands    []Band   `json:"bands"` // STAC 1.1 has both in one
	Size     *int64   `json:"file:size"`
	Checksum string   `json:"file:checksum"` // a multihash, hexadecimal
	Projection
}

// Band names a band of an asset.
type Band struct {
	Name       string `json:"name"`
	CommonName string `json:"common_name"`
	EOCommon   string `json:"eo:common_name"`
	Raster
}

// Raster tells what the values of a band mean. NoData may be a number or one of
// "nan", "inf", "-inf".
type Raster struct {
	Scale    *float64        `json:"scale"`
	Offset   *float64        `json:"offset"`
	RScale   *float64        `json:"raster:scale"` // STAC 1.1
	ROffset  *float64        `json:"raster:offset"`
	NoData   json.RawMessage `json:"nodata"`
	DataType string          `json:"data_type"`
	Unit     string          `json:"unit"`
}

// Time is the moment of the item: its datetime, or the start of its range.
func (i *Item) Time() (time.Time, bool) {
	for _, t := range []*time.Time{i.Properties.Datetime, i.Properties.Start} {
		if t != nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// check refuses an item that cannot be used.
func (i *Item) check() error {
	if i.ID == "" {
		return fmt.Errorf("%w: an item has no id", ErrFormat)
	}
	if _, ok := i.Time(); !ok {
		return fmt.Errorf("%w: item %s has neither datetime nor start_datetime", ErrFormat, i.ID)
	}
	return nil
}

// Asset finds the file of a band by one of its names: first as a key, in any
// case, then as the name of a band, then as a common name. The band's index in
// the file counts from 1.
func (i *Item) Asset(names ...string) (key string, band int, ok bool) {
	keys := slices.Sorted(maps.Keys(i.Assets))
	for _, name := range names {
		for _, k := range keys {
			if strings.EqualFold(k, name) && i.Assets[k].Href != "" {
				return k, 1, true
			}
		}
	}
	match := func(pick func(Band) string) bool {
		for _, k := range keys {
			a := i.Assets[k]
			bands := a.EOBands
			if len(bands) == 0 {
				bands = a.Bands
			}
			for n, b := range bands {
				v := pick(b)
				if v != "" && slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(v, name) }) && a.Href != "" && isRaster(a) {
					key, band = k, n+1
					return true
				}
			}
		}
		return false
	}
	ok = match(func(b Band) string { return b.Name }) || match(func(b Band) string { return b.CommonName }) || match(func(b Band) string { return b.EOCommon })
	return key, band, ok
}

// isRaster leaves out thumbnails, overviews and metadata that list bands too.
func isRaster(a Asset) bool {
	if slices.Contains(a.Roles, "thumbnail") || slices.Contains(a.Roles, "overview") || slices.Contains(a.Roles, "metadata") {
		return false
	}
	return a.Type == "" || strings.HasPrefix(a.Type, "image/tiff") || strings.HasPrefix(a.Type, "image/vnd.stac.geotiff")
}

// raster is Asset.Raster with what the properties of a Sentinel-2 item say of its
// reflectances: from baseline 4 on, 1000 is added to the stored numbers (ESA,
// Sentinel-2 products specification, BOA_ADD_OFFSET). Planetary Computer leaves
// the numbers so and states no offset; Earth Search states one even where it has
// taken it out.
func (i *Item) raster(b *archive.Band, a Asset, band int) Raster {
	r := a.Raster(band)
	if b.Measures != archive.SurfaceReflectance {
		return r
	}
	baseline, err := strconv.ParseFloat(i.Properties.Baseline, 64)
	switch applied := i.Properties.OffsetApplied; {
	case applied != nil && *applied:
		r.Offset = new(0.0)
	case r.Offset == nil && err == nil && baseline >= 4:
		r.Offset = new(-0.1)
	}
	return r
}

// Raster tells what the values of a band of the asset mean, as far as the item
// says.
func (a Asset) Raster(band int) Raster {
	if band <= len(a.Rasters) {
		return a.Rasters[band-1]
	}
	if band <= len(a.Bands) {
		r := a.Bands[band-1].Raster
		if r.Scale == nil {
			r.Scale = r.RScale
		}
		if r.Offset == nil {
			r.Offset = r.ROffset
		}
		return r
	}
	return Raster{}
}
