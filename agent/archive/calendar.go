package archive

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// Dates returns the first days of the product's rasters of a place that lie in
// from … to and in the record, in order. Only a product with a revisit time
// depends on the place: neighbouring ground tracks are passed on other days.
func (p *Product) Dates(lon float64, from, to time.Time) []time.Time {
	if p.Once {
		return []time.Time{p.Start}
	}
	from, to = midnight(from), midnight(to)
	if from.Before(p.Start) {
		from = p.Start
	}
	if to.After(p.End) {
		to = p.End
	}
	var days []time.Time
	if p.Revisit > 0 {
		track := int(math.Floor((lon + 180) / trackWidth))
		// The tracks of one day lie apart; a neighbour is passed a week later.
		offset := mod(track*7+p.Phase, p.Revisit)
		first := DayNumber(from)
		first += mod(offset-first, p.Revisit)
		for n := first; n <= DayNumber(to); n += p.Revisit {
			if p.Share >= 1 || p.recorded(track, n) {
				days = append(days, dayOf(n))
			}
		}
		return days
	}
	for t := p.Cadence.firstFrom(from.AddDate(0, 0, -p.Phase)); ; t = p.Cadence.Next(t) {
		day := t.AddDate(0, 0, p.Phase)
		if day.After(to) {
			return days
		}
		days = append(days, day)
	}
}

// trackWidth is the distance of neighbouring ground tracks in degrees of
// longitude: 233 of them go round the equator, as Landsat's do.
const trackWidth = 360.0 / 233

// recorded decides whether the pass of day n over a track was recorded.
func (p *Product) recorded(track, n int) bool {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d", p.ID, track, n)
	bits := h.Sum64() // FNV hardly spreads the last digits
	bits = (bits ^ bits>>32) * 0xD6E8FEB86659FD93
	return float64((bits^bits>>32)>>11)/(1<<53) < p.Share
}

func dayOf(n int) time.Time { return time.Unix(int64(n)*86400, 0).UTC() }

// PassTime is the UTC time at which the satellite passes a longitude on a day, in
// steps of five minutes. The local solar time sways by 50 minutes over the 16 days
// of the orbit cycle.
func (p *Product) PassTime(lon float64, day time.Time, night bool) time.Time {
	hour := p.LocalHour(day, night) - lon/15
	minutes := mod(int(math.Floor(hour*12))*5, 24*60)
	return midnight(day).Add(time.Duration(minutes) * time.Minute)
}

// LocalHour is the local solar time, in hours, of the day's pass.
func (p *Product) LocalHour(day time.Time, night bool) float64 {
	hour := p.Overpass
	if night {
		hour += 12
	}
	if p.Swath {
		hour += (float64(mod(DayNumber(day)*7, 16)) - 7.5) / 9
	}
	return math.Mod(hour, 24)
}

// Days is how many days the product's raster of a first day sums up.
func (p *Product) Days(first time.Time) int {
	if p.Cadence.IsZero() {
		return 1
	}
	next := p.Cadence.Next(first.AddDate(0, 0, -p.Phase)).AddDate(0, 0, p.Phase)
	return DayNumber(next) - DayNumber(first)
}

// window is one file's worth of time: its first day and the acquisitions in it.
type window struct {
	first time.Time
	times []time.Time
	span  int // days of calendar time
}

// windows groups the acquisitions of a request, which are in order.
func (r *Request) windows(times []time.Time) []window {
	var ws []window
	for _, d := range times {
		step, first := r.Step, d
		if !step.IsZero() {
			first = step.Floor(d)
		}
		if n := len(ws); n > 0 && ws[n-1].first.Equal(first) {
			ws[n-1].times = append(ws[n-1].times, d)
			continue
		}
		span := r.Product.Days(first)
		if !step.IsZero() {
			span = DayNumber(step.Next(first)) - DayNumber(first)
		}
		ws = append(ws, window{first, []time.Time{d}, span})
	}
	return ws
}

// span returns the period of acquisitions that the request needs: whole
// intervals, those whose first day lies in the period asked for.
func (r *Request) span() (from, to time.Time) {
	if r.Step.IsZero() {
		return r.Start, r.End
	}
	from = r.Step.firstFrom(r.Start)
	last := r.Step.Floor(r.End)
	if last.Before(r.Start) {
		return from, last.AddDate(0, 0, -1) // empty
	}
	return from, r.Step.Next(last).AddDate(0, 0, -1)
}
