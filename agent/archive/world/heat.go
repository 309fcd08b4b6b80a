package world

import "math"

// noonSun is the cosine of the sun's zenith angle at noon.
func noonSun(lat, day float64) float64 {
	decl := 23.44 * seasonAt(day, 172)
	return max(0, math.Cos((lat-decl)*math.Pi/180))
}

// diurnal is where, between the coolest and the warmest time of the day, the
// surface is at a local solar hour: 1 in the early afternoon, 0 before sunrise.
func diurnal(hour float64) float64 {
	return 0.5 + 0.5*math.Cos((hour-13.2)/24*2*math.Pi)
}

// SurfaceTemperature returns the temperature of the surface in kelvin at a local
// solar hour, under a clear sky.
//
// Bare dry ground warms by more than 20 K over the air by day and cools by night;
// plants, by evaporating water, stay within a few kelvin of the air; water hardly
// has a daily course; snow does not get warmer than its melting point.
func (s *Scene) SurfaceTemperature(hour float64) []float32 {
	air, wet, c := s.Air(), s.SoilMoisture(), s.makeCover()
	out := s.field()
	f := diurnal(hour)
	var sun float64 // of the row
	for i := range out {
		lat := s.ax.lat[i/s.Width]
		if i%s.Width == 0 {
			sun = noonSun(lat, s.day)
		}
		t := float64(air[i])
		dry := 1 - ramp(0.05, 0.4, float64(wet[i]))
		high := 1 + float64(s.elevation[i])/9000
		plants, urban, water, snow := float64(c.plants[i]), float64(c.urban[i]), float64(c.water[i]), float64(c.snow[i])
		bare := c.bare(i) + float64(c.burnt[i])
		rough := 0.8 * float64(s.texture[i])

		ground := t + mix(-3.5-5*dry, 3+sun*high*(7+19*dry)/(0.75+0.25*float64(s.bright[i])), f)
		green := t + mix(-3, 1.5+3.5*sun, f)
		built := t + mix(-0.5, 3+15*sun, f)
		// Waters lag behind the air and follow the yearly course only.
		lake := max(float64(s.mean[i])+0.75*float64(s.swing[i])*s.now.water+s.trends[i].Warming*s.now.years+0.2*float64(s.yearly[i]), -1.8)
		lake += mix(-0.5, 0.5, f)
		white := min(t+mix(-3, 1+2.5*sun, f), 0)
		k := plants*green + urban*built + bare*ground + water*lake + snow*white
		k += rough * (1 - water)
		out[i] = float32(273.15 + k)
	}
	return out
}

// emissivities by wavelength (µm): bare soil with the quartz bands of silicates,
// green plants, buildings, water, snow.
var emissive = []struct{ um, soil, plants, urban, water, snow float64 }{
	{8.29, 0.85, 0.980, 0.920, 0.985, 0.990},
	{8.63, 0.86, 0.980, 0.925, 0.985, 0.990},
	{9.07, 0.87, 0.980, 0.925, 0.985, 0.991},
	{10.66, 0.955, 0.982, 0.950, 0.991, 0.992},
	{10.9, 0.962, 0.984, 0.953, 0.991, 0.990},
	{11.03, 0.964, 0.985, 0.955, 0.992, 0.989},
	{11.32, 0.966, 0.986, 0.956, 0.991, 0.987},
	{12.02, 0.972, 0.988, 0.960, 0.988, 0.980},
}

// Emissivity returns the emissivity at a thermal wavelength in µm.
func (s *Scene) Emissivity(um float64) []float32 {
	c := s.makeCover()
	k := 0
	for k < len(emissive)-2 && emissive[k+1].um < um {
		k++
	}
	a, b := emissive[k], emissive[k+1]
	w := clamp((um-a.um)/(b.um-a.um), 0, 1)
	soil, plants, urban := mix(a.soil, b.soil, w), mix(a.plants, b.plants, w), mix(a.urban, b.urban, w)
	water, snow := mix(a.water, b.water, w), mix(a.snow, b.snow, w)
	out := s.field()
	for i := range out {
		bare := c.bare(i) + float64(c.burnt[i])
		e := bare*(soil+0.06*(1-soil)*float64(s.soil[i])) + float64(c.plants[i])*plants + float64(c.urban[i])*urban + float64(c.water[i])*water + float64(c.snow[i])*snow
		out[i] = float32(clamp(e, 0.7, 0.998))
	}
	return out
}
