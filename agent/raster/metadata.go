package raster

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The GDAL_METADATA tag: an XML list of items, each for the whole file or for one band ("sample", counted from 0), some with a role.
type metadataXML struct {
	XMLName xml.Name       `xml:"GDALMetadata"`
	Items   []metadataItem `xml:"Item"`
}

type metadataItem struct {
	Name   string `xml:"name,attr"`
	Sample string `xml:"sample,attr,omitempty"`
	Role   string `xml:"role,attr,omitempty"`
	Domain string `xml:"domain,attr,omitempty"`
	Value  string `xml:",chardata"`
}

// GDAL escapes values once more within the XML.
var (
	escapeValue   = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
	unescapeValue = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'")
)

// parseMetadata fills info's metadata and band descriptions from the text of the tag. Items of GDAL's other metadata domains are skipped.
func parseMetadata(text string, info *Info) error {
	var m metadataXML
	if err := xml.Unmarshal([]byte(text), &m); err != nil {
		return fmt.Errorf("GDAL_METADATA: %v: %w", err, ErrFormat)
	}
	for _, it := range m.Items {
		if it.Domain != "" {
			continue
		}
		it.Value = unescapeValue.Replace(it.Value)
		if it.Sample == "" {
			if info.Metadata == nil {
				info.Metadata = map[string]string{}
			}
			info.Metadata[it.Name] = it.Value
			continue
		}
		n, err := strconv.Atoi(it.Sample)
		if err != nil || n < 0 || n >= len(info.Bands) {
			return fmt.Errorf("GDAL_METADATA item %q is for sample %q of a raster with %d bands: %w", it.Name, it.Sample, len(info.Bands), ErrFormat)
		}
		b := &info.Bands[n]
		switch it.Role {
		case "scale", "offset":
			v, err := strconv.ParseFloat(strings.TrimSpace(it.Value), 64)
			if err != nil || !finite(v) {
				return fmt.Errorf("GDAL_METADATA: %s %q of band %d is not a number: %w", it.Role, it.Value, n+1, ErrFormat)
			}
			if it.Role == "scale" {
				b.Scale = v
			} else {
				b.Offset = v
			}
		case "description":
			b.Description = it.Value
		case "unittype":
			b.Unit = it.Value
		default:
			if b.Metadata == nil {
				b.Metadata = map[string]string{}
			}
			b.Metadata[it.Name] = it.Value
		}
	}
	return nil
}

// formatMetadata returns the text of the tag, "" if there is nothing to say. Items are in a fixed order.
func formatMetadata(spec Spec) (string, error) {
	var m metadataXML
	add := func(name, sample, role, value string) {
		m.Items = append(m.Items, metadataItem{Name: name, Sample: sample, Role: role, Value: escapeValue.Replace(value)})
	}
	sorted := func(items map[string]string, sample string) {
		for _, k := range slices.SortedFunc(maps.Keys(items), cmp.Compare[string]) {
			add(k, sample, "", items[k])
		}
	}
	sorted(spec.Metadata, "")
	for i, b := range spec.Bands {
		sample := strconv.Itoa(i)
		if b.Description != "" {
			add("DESCRIPTION", sample, "description", b.Description)
		}
		if b.Offset != 0 || b.scale() != 1 {
			add("OFFSET", sample, "offset", strconv.FormatFloat(b.Offset, 'g', -1, 64))
			add("SCALE", sample, "scale", strconv.FormatFloat(b.scale(), 'g', -1, 64))
		}
		if b.Unit != "" {
			add("UNITTYPE", sample, "unittype", b.Unit)
		}
		sorted(b.Metadata, sample)
	}
	if len(m.Items) == 0 {
		return "", nil
	}
	out, err := xml.MarshalIndent(m, "", "  ")
	if err != nil {
		return "", fmt.Errorf("GDAL_METADATA: %w", err)
	}
	return string(out) + "\n", nil
}
