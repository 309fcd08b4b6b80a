package world

// spectrum is the reflectance of the pure covers at a wavelength.
type spectrum struct {
	um                                            float64
	plants, soil, urban, water, silt, snow, burnt float64
}

// spectra are typical reflectances. Silt is what suspended matter adds to water.
var spectra = []spectrum{
	{0.443, 0.028, 0.090, 0.100, 0.055, 0.015, 0.94, 0.038},
	{0.482, 0.034, 0.115, 0.110, 0.052, 0.030, 0.94, 0.042},
	{0.560, 0.090, 0.180, 0.130, 0.042, 0.075, 0.93, 0.052},
	{0.645, 0.042, 0.250, 0.150, 0.022, 0.085, 0.91, 0.062},
	{0.665, 0.038, 0.260, 0.152, 0.019, 0.080, 0.91, 0.064},
	{0.704, 0.120, 0.275, 0.160, 0.013, 0.070, 0.90, 0.068},
	{0.740, 0.320, 0.290, 0.170, 0.009, 0.048, 0.89, 0.072},
	{0.783, 0.430, 0.305, 0.180, 0.007, 0.042, 0.88, 0.078},
	{0.858, 0.465, 0.330, 0.190, 0.005, 0.030, 0.85, 0.088},
	{0.905, 0.465, 0.340, 0.197, 0.004, 0.018, 0.81, 0.096},
	{0.940, 0.455, 0.345, 0.200, 0.004, 0.012, 0.78, 0.100},
	{1.240, 0.420, 0.400, 0.220, 0.003, 0.006, 0.45, 0.140},
	{1.610, 0.240, 0.440, 0.240, 0.002, 0.003, 0.10, 0.180},
	{1.650, 0.235, 0.440, 0.240, 0.002, 0.003, 0.10, 0.182},
	{2.130, 0.105, 0.410, 0.220, 0.001, 0.001, 0.06, 0.195},
	{2.220, 0.095, 0.390, 0.210, 0.001, 0.001, 0.07, 0.190},
}

func spectrumAt(um float64) spectrum {
	k := 0
	for k < len(spectra)-2 && spectra[k+1].um < um {
		k++
	}
	a, b := spectra[k], spectra[k+1]
	w := clamp((um-a.um)/(b.um-a.um), 0, 1)
	return spectrum{um, mix(a.plants, b.plants, w), mix(a.soil, b.soil, w), mix(a.urban, b.urban, w), mix(a.water, b.water, w),
		mix(a.silt, b.silt, w), mix(a.snow, b.snow, w), mix(a.burnt, b.burnt, w)}
}

// Reflectance returns the reflectance of the surface at a wavelength in µm: the
// mean of the pure covers' by their shares.
func (s *Scene) Reflectance(um float64) []float32 {
	c, wet := s.makeCover(), s.SoilMoisture()
	sp := spectrumAt(um)
	rains := seasonAt(s.day-15, peakRain)
	dark := 0.9
	if um > 1.3 {
		dark = 1.5 // water absorbs there
	}
	out := s.field()
	for i := range out {
		soil := sp.soil * float64(s.bright[i]) * (1 + 0.14*float64(s.soil[i])) * (1 - dark*min(float64(wet[i]), 0.4))
		silt := 0.0
		if c.water[i] > 0 {
			silt = s.silt(i, rains)
		}
		v := float64(c.plants[i])*sp.plants*(1+0.05*float64(s.vigour[i])) + c.bare(i)*soil + float64(c.urban[i])*sp.urban*(1+0.12*float64(s.soil[i])) +
			float64(c.water[i])*(sp.water+silt*sp.silt) + float64(c.snow[i])*sp.snow*(1-0.03*float64(s.texture[i])) + float64(c.burnt[i])*sp.burnt
		out[i] = float32(clamp(v, 0.001, 1.1))
	}
	return out
}

// silt is the suspended matter of the water, 0 … about 1.6: more near the shore and
// after rain.
func (s *Scene) silt(i int, rains float64) float64 {
	shallow := 0.25
	if d := s.lake[i]; d > 0 {
		shallow = ramp(0.6, 0, float64(d))
	} else if s.land[i] > 0 {
		shallow = 1
	}
	return (0.1 + 1.1*float64(s.turbidity[i])) * (0.4 + 0.6*shallow) * clamp(1+0.3*float64(s.season[i])*rains+0.15*float64(s.moisture[i]), 0.3, 1.8)
}

// Albedo returns the broadband shortwave albedo by Liang (2001, Remote Sens.
// Environ. 76) from the reflectances of the seven MODIS land bands.
func (s *Scene) Albedo() []float32 {
	out := s.field()
	for _, b := range []struct{ um, w float64 }{{0.645, 0.160}, {0.858, 0.291}, {0.469, 0.243}, {0.555, 0.116}, {1.24, 0.112}, {2.13, 0.081}} {
		for i, r := range s.Reflectance(b.um) {
			out[i] += float32(b.w) * r
		}
	}
	for i := range out {
		out[i] = float32(clamp(float64(out[i])-0.0015, 0.005, 0.98))
	}
	return out
}
