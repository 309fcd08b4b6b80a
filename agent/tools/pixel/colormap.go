package pixel

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Colormap maps 0 … 1 to colours along straight lines between evenly spaced stops.
type Colormap [][3]float64

// colormaps are the stops as hexadecimal colours. Those of matplotlib (viridis,
// plasma, inferno, magma: CC0) and Moreland's coolwarm lie within 3 of 255 levels of
// the originals; the others are ColorBrewer's classes.
var colormaps = map[string]string{
	"viridis": "440154 470d60 48186a 482374 472d7b 453681 424086 3f4989 3b528b 375a8d 33638d " +
		"2f6a8e 2c728e 297a8e 26818e 23898e 21908c 1f988b 1f9f88 21a685 28ae80 31b57b " +
		"3ebc74 4cc26c 5dc963 6ece58 82d34c 96d83f abdc32 c0df24 d5e21a eae51a fde725",
	"plasma": "0d0887 220690 310596 3f049c 4c02a1 5901a5 6600a7 7201a8 7e03a8 8909a6 9511a2 " +
		"9f1a9c a92396 b22c8e bb3587 c33e80 cb4778 d25071 d9596a e06263 e66c5c eb7555 " +
		"f07f4f f48a48 f89441 fb9f3a fdab33 feb72d fdc328 fcd025 f9dd25 f5eb27 f0f921",
	"inferno": "000004 040312 0b0724 150b37 210c4a 2e0a5a 3c0965 4a0c6b 57106d 63146e 70196e " +
		"7d1e6d 89226a 962766 a32b61 af315c bb3755 c63e4d d14644 db4f3b e35932 eb6528 " +
		"f1711e f67f14 f98d0a fb9c06 fcab0f fbba1f f9ca32 f5d949 f2e865 f3f586 fcffa4",
	"magma": "000004 030311 0a0822 130d33 1d1146 28115a 36106a 430f76 50127c 5d177f 691c81 " +
		"762181 822681 8f2a81 9c2e7f a9327d b63779 c33b75 cf4170 db486a e65163 ee5c5e " +
		"f5695c f9785d fb8761 fd9668 fea571 feb47b fec387 fed194 fde0a2 fceeb0 fcfdbf",
	"coolwarm": "3b4cc0 445acc 4d68d7 5775e1 6282ea 6c8ef1 779af7 82a5fb 8db0fe 98b9ff a3c2fe " +
		"aec9fc b8d0f9 c2d5f4 ccd9ee d5dbe6 dddddd e5d8d1 ecd3c5 f1ccb9 f4c4ad f7bba0 " +
		"f7b194 f7a687 f49a7b f18d6f ec7f63 e57058 de604d d55042 cb3e38 c0282f b40426",
	"RdYlGn": "a50026 d62f27 f46d43 fdad60 fee08b feffbe d9ef8b a5d86a 66bd63 199750 006837",
	"RdBu":   "67001f b1182b d6604d f3a481 fddbc7 f6f7f7 d1e5f0 90c4dd 4393c3 2065ab 053061",
	"Blues":  "f7fbff deebf7 c6dbef 9dcae1 6aaed6 4191c6 2070b4 08509b 08306b",
	"Reds":   "fff5f0 fee0d2 fcbba1 fc9272 fb694a ee3a2c ca181d a30f15 67000d",
	"Greens": "f7fcf5 e5f5e0 c7e9c0 a0d99b 73c476 40aa5d 228a44 006c2c 00441b",
	"YlOrRd": "ffffcc ffeda0 fed976 feb24c fd8c3c fc4d2a e2191c bb0026 800026",
	"gray":   "000000 ffffff",
	"cool":   "00ffff ff00ff",
	"jet":    "000080 0000ff 0080ff 00ffff 80ff80 ffff00 ff8000 ff0000 800000",
	"hot":    "000000 550000 aa0000 ff0000 ff5500 ffaa00 ffff00 ffff80 ffffff",
}

// ColormapNames are the maps that ColormapOf knows.
func ColormapNames() []string { return slices.Sorted(maps.Keys(colormaps)) }

// ColormapOf is the colour map of a name; "_r" after it turns it round.
func ColormapOf(name string) (Colormap, error) {
	stops, ok := colormaps[strings.TrimSuffix(name, "_r")]
	if !ok {
		return nil, fmt.Errorf("there is no colour map %q; use one of %s", name, strings.Join(ColormapNames(), ", "))
	}
	var m Colormap
	for _, hex := range strings.Fields(stops) {
		n, err := strconv.ParseUint(hex, 16, 32)
		if err != nil {
			return nil, fmt.Errorf("colour map %s: %w", name, err)
		}
		m = append(m, [3]float64{float64(n >> 16), float64(n >> 8 & 255), float64(n & 255)})
	}
	if strings.HasSuffix(name, "_r") {
		slices.Reverse(m)
	}
	return m, nil
}

// At is the colour, of 0 … 255 each, at a position 0 … 1.
func (m Colormap) At(x float64) [3]float32 {
	p := min(max(x, 0), 1) * float64(len(m)-1)
	i := min(int(p), len(m)-2)
	var out [3]float32
	for k := range out {
		out[k] = float32(math.Round(m[i][k] + (p-float64(i))*(m[i+1][k]-m[i][k])))
	}
	return out
}
