package synthetic

import (
	"math"

	"terraloom/agent/archive"
)

// backscatter in dB: moist soil and buildings scatter strongly, plants in both
// polarizations, calm water hardly at all; speckle on top.
func (v *view) backscatter(b *archive.Band) []float32 {
	wet, water, urban, plants, bare, snow := v.SoilMoisture(), v.Water(), v.Urban(), v.Plants(), v.Bare(), v.Snow()
	cross := b.Name == "VH"
	db := func(x float64) float64 { return math.Pow(10, x/10) }
	out := make([]float32, len(wet))
	for i := range out {
		soil := -16 + 18*math.Min(float64(wet[i]), 0.4)
		green, built, flat, white := -9.0, -3.0, -21.0, -13.0
		if cross {
			soil, green, built, flat, white = soil-9, -15, -10, -28, -21
		}
		sigma := float64(bare[i])*db(soil) + float64(plants[i])*db(green) + float64(urban[i])*db(built) + float64(water[i])*db(flat) + float64(snow[i])*db(white)
		out[i] = float32(10 * math.Log10(max(sigma, 1e-4)))
	}
	return v.blur(out, b.Name, constant(1.1))
}

// blind is true where a radiometer cannot see soil moisture: over water, snow,
// frost and cities.
func (v *view) blind() []bool {
	water, snow, urban, frozen := v.Water(), v.Snow(), v.Urban(), v.Frozen()
	out := make([]bool, len(water))
	for i := range out {
		out[i] = water[i] > 0.3 || snow[i] > 0.3 || urban[i] > 0.5 || frozen[i] > 0.5
	}
	return out
}

// gap is true between the swaths of the day's passes.
func (v *view) gap(i int) bool {
	if v.mode != observed {
		return false
	}
	res := v.product.Resolution / 111319.49
	lon := float64(v.cols[i%len(v.cols)]) * res
	lat := float64(v.rows[i/len(v.cols)]) * res
	_, f := math.Modf((lon+180+0.15*lat)/24.6 + float64(archive.DayNumber(v.day)*3%8)/8 + 2)
	return f > 0.45+0.55*math.Pow(math.Abs(lat)/75, 2)
}

func (v *view) soilMoisture(b *archive.Band) []float32 {
	out := append([]float32(nil), v.SoilMoisture()...)
	blind := v.blind()
	v.blur(out, b.Name, constant(0.015))
	for i := range out {
		if blind[i] || v.gap(i) {
			out[i] = nan
		}
	}
	return out
}

// microwave is the L-band brightness temperature: wet soil is cold, more so in
// horizontal polarization, and plants hide it.
func (v *view) microwave(b *archive.Band, hour float64) []float32 {
	wet, water, plants := v.SoilMoisture(), v.Water(), v.Plants()
	t := v.SurfaceTemperature(hour)
	horizontal := b.Name == "tb_h_corrected_am"
	out := make([]float32, len(wet))
	for i := range out {
		m := float64(wet[i])
		e, sea := 0.97-0.45*m, 0.47
		if horizontal {
			e, sea = 0.93-0.85*m, 0.27
		}
		through := math.Exp(-0.9 * float64(plants[i]))
		e = 0.96 - (0.96-e)*through*through
		w := float64(water[i])
		out[i] = float32(float64(t[i]) * (e*(1-w) + sea*w))
	}
	v.blur(out, b.Name, constant(1))
	for i := range out {
		if v.gap(i) {
			out[i] = nan
		}
	}
	return out
}
