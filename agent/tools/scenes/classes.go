package scenes

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// look draws the surroundings that make a scene one of its class.
type look struct {
	draw func(c *canvas)
	like []string // classes that a model takes it for when it errs
}

var (
	grass    = rgb{96, 124, 68}
	lush     = rgb{62, 98, 48}
	canopy   = rgb{36, 66, 34}
	soil     = rgb{152, 128, 98}
	sand     = rgb{214, 192, 150}
	rock     = rgb{128, 118, 106}
	concrete = rgb{168, 166, 162}
	asphalt  = rgb{92, 92, 96}
	sea      = rgb{34, 74, 104}
	lake     = rgb{44, 82, 84}
	red      = rgb{164, 84, 66}
	white    = rgb{226, 226, 222}
	slate    = rgb{98, 104, 116}
)

// part is the number of things of which a picture of 256×256 pixels holds n.
func (c *canvas) part(n int) int { return max(n*c.w*c.h/(256*256), 1) }

var looks = map[string]look{
	"Airport": {func(c *canvas) {
		c.ground(grass, soil, 60, 8)
		c.road(float64(c.w)/2, float64(c.h)/2, 0.3, float64(c.h)/9, asphalt)
		c.road(float64(c.w)/2, float64(c.h)/1.3, 0.3, float64(c.h)/20, concrete)
		c.blocks(c.part(3), 40, 22, white)
	}, []string{"RailwayStation", "Parking", "Industrial"}},
	"BareLand": {func(c *canvas) { c.ground(soil, rock, 50, 14) }, []string{"Desert", "Mountain", "Farmland"}},
	"BaseballField": {func(c *canvas) {
		c.ground(grass, lush, 90, 6)
		c.rounds(c.part(1), 46, soil, 6)
	}, []string{"Playground", "Stadium", "Park"}},
	"Beach": {func(c *canvas) {
		c.ground(sand, sand.add(-14), 30, 7)
		c.where(sea, 6, func(x, y float64) bool { return y+18*c.field(x, 0, 60) > 0.55*float64(c.h) })
		c.where(white, 8, func(x, y float64) bool { return math.Abs(y+18*c.field(x, 0, 60)-0.55*float64(c.h)) < 3 })
	}, []string{"Desert", "Port", "Pond"}},
	"Bridge": {func(c *canvas) {
		c.ground(grass, concrete, 60, 10)
		c.road(float64(c.w)/2, float64(c.h)/2, 0.1, float64(c.h)/3, lake)
		c.road(float64(c.w)/2, float64(c.h)/2, 1.6, float64(c.w)/14, concrete)
	}, []string{"River", "Viaduct", "Port"}},
	"Center": {func(c *canvas) {
		c.ground(concrete, asphalt, 60, 8)
		c.rounds(1, 60, slate, 40)
		c.blocks(c.part(8), 26, 22, concrete, white)
	}, []string{"Square", "Stadium", "Commercial"}},
	"Church": {func(c *canvas) {
		c.ground(grass, concrete, 50, 8)
		c.road(float64(c.w)/2, float64(c.h)/2, 0, 26, red)
		c.road(float64(c.w)/2, float64(c.h)/2, math.Pi/2, 26, red)
		c.rounds(c.part(20), 6, canopy, 20)
	}, []string{"School", "Center", "MediumResidential"}},
	"Commercial": {func(c *canvas) {
		c.ground(asphalt, concrete, 40, 8)
		c.blocks(c.part(30), 44, 32, white, concrete, slate, red)
	}, []string{"Center", "DenseResidential", "Industrial"}},
	"DenseResidential": {func(c *canvas) {
		c.ground(asphalt, grass, 20, 8)
		c.blocks(c.part(170), 15, 12, red, slate, concrete)
	}, []string{"MediumResidential", "Commercial", "School"}},
	"Desert": {func(c *canvas) {
		c.ground(sand, soil, 120, 3)
		c.where(sand.add(18), 3, func(x, y float64) bool { return math.Sin(y/9+3*c.field(x, y, 70)) > 0.55 })
	}, []string{"BareLand", "Beach", "Mountain"}},
	"Farmland": {func(c *canvas) {
		c.ground(grass, soil, 200, 5)
		for _, k := range []rgb{lush, soil, grass.add(24), {170, 160, 92}} {
			at := c.rng.Float64() * 40
			c.where(k, 5, func(x, y float64) bool {
				return math.Mod(math.Floor((x+at)/52)*3+math.Floor((y+at)/40)*5, 7) == math.Floor(k[1]/40)
			})
		}
	}, []string{"Meadow", "BareLand", "Park"}},
	"Forest": {func(c *canvas) {
		c.ground(canopy, canopy.add(12), 40, 8)
		c.rounds(c.part(900), 6, canopy.add(10), 22)
	}, []string{"Mountain", "Meadow", "Park"}},
	"Industrial": {func(c *canvas) {
		c.ground(concrete, asphalt, 50, 8)
		c.blocks(c.part(14), 76, 40, slate, white, rgb{86, 110, 140})
	}, []string{"Commercial", "StorageTanks", "Parking"}},
	"Meadow": {func(c *canvas) { c.ground(grass.add(12), grass, 80, 6) }, []string{"Farmland", "Park", "Forest"}},
	"MediumResidential": {func(c *canvas) {
		c.ground(grass, asphalt, 26, 8)
		c.blocks(c.part(80), 16, 13, red, slate, concrete)
		c.rounds(c.part(90), 4, canopy, 18)
	}, []string{"DenseResidential", "SparseResidential", "School"}},
	"Mountain": {func(c *canvas) {
		c.ground(rock, canopy, 44, 10)
		for y := range c.h {
			for x := range c.w {
				fx, fy := float64(x), float64(y)
				shade := 90 * (c.field(fx+3, fy+3, 40) - c.field(fx, fy, 40))
				r, g, b, _ := c.img.At(x, y).RGBA()
				c.set(x, y, rgb{float64(r >> 8), float64(g >> 8), float64(b >> 8)}.add(4*shade))
			}
		}
	}, []string{"Forest", "BareLand", "Desert"}},
	"Park": {func(c *canvas) {
		c.ground(grass, lush, 40, 7)
		c.rounds(c.part(160), 5, canopy, 20)
		c.where(lake, 4, func(x, y float64) bool { return c.field(x, y, 90) > 0.62 })
		c.road(float64(c.w)/2, float64(c.h)/3, 0.7, 5, sand)
	}, []string{"Pond", "Resort", "Meadow"}},
	"Parking": {func(c *canvas) {
		c.ground(asphalt, asphalt.add(8), 60, 5)
		c.where(white, 4, func(x, y float64) bool { return math.Mod(x, 8) < 1 && math.Mod(y, 40) < 26 })
		c.blocks(c.part(120), 11, 6, white, slate, red, rgb{40, 44, 60})
	}, []string{"Commercial", "Industrial", "Port"}},
	"Playground": {func(c *canvas) {
		c.ground(grass, concrete, 50, 8)
		c.ring(0.42, 0.28, rgb{170, 84, 66}, lush)
	}, []string{"Stadium", "School", "BaseballField"}},
	"Pond": {func(c *canvas) {
		c.ground(grass, soil, 40, 9)
		c.where(lake, 4, func(x, y float64) bool {
			dx, dy := x/float64(c.w)-0.5, y/float64(c.h)-0.5
			return dx*dx+dy*dy < 0.1+0.04*c.field(x, y, 50)
		})
	}, []string{"Park", "River", "Resort"}},
	"Port": {func(c *canvas) {
		c.ground(sea, sea.add(8), 60, 5)
		c.where(concrete, 6, func(x, y float64) bool { return y < 0.3*float64(c.h) || math.Mod(x, 60) < 12 && y < 0.7*float64(c.h) })
		c.blocks(c.part(16), 22, 8, white, red)
	}, []string{"Beach", "Bridge", "Parking"}},
	"RailwayStation": {func(c *canvas) {
		c.ground(soil, asphalt, 40, 8)
		c.where(slate, 5, func(_, y float64) bool { return math.Mod(y, 12) < 3 })
		c.blocks(c.part(2), 110, 46, white, slate)
	}, []string{"Industrial", "Viaduct", "Airport"}},
	"Resort": {func(c *canvas) {
		c.ground(grass, sand, 40, 8)
		c.blocks(c.part(18), 24, 15, red, white)
		c.rounds(c.part(6), 9, rgb{70, 178, 204}, 4)
		c.rounds(c.part(60), 4, canopy, 18)
	}, []string{"Park", "SparseResidential", "Pond"}},
	"River": {func(c *canvas) {
		c.ground(grass, canopy, 60, 9)
		c.where(lake, 4, func(x, y float64) bool {
			return math.Abs(y-float64(c.h)/2-40*math.Sin(x/45+c.field(x, 0, 80))) < float64(c.h)/10
		})
	}, []string{"Bridge", "Pond", "Farmland"}},
	"School": {func(c *canvas) {
		c.ground(grass, concrete, 40, 8)
		c.blocks(c.part(12), 52, 18, red, white)
		c.ring(0.24, 0.15, rgb{170, 84, 66}, lush)
	}, []string{"Playground", "MediumResidential", "Commercial"}},
	"SparseResidential": {func(c *canvas) {
		c.ground(grass, lush, 50, 8)
		c.blocks(c.part(14), 18, 14, red, slate, white)
		c.rounds(c.part(120), 5, canopy, 20)
	}, []string{"MediumResidential", "Resort", "Farmland"}},
	"Square": {func(c *canvas) {
		c.ground(concrete, concrete.add(12), 40, 5)
		c.where(concrete.add(-22), 4, func(x, y float64) bool { return math.Mod(x, 24) < 2 || math.Mod(y, 24) < 2 })
		c.rounds(c.part(14), 5, lush, 14)
	}, []string{"Center", "Parking", "Park"}},
	"Stadium": {func(c *canvas) {
		c.ground(concrete, asphalt, 50, 8)
		c.ring(0.47, 0.24, white, lush)
	}, []string{"Playground", "Center", "BaseballField"}},
	"StorageTanks": {func(c *canvas) {
		c.ground(soil, concrete, 40, 8)
		c.rounds(c.part(14), 20, white, 26)
	}, []string{"Industrial", "Center", "Pond"}},
	"Viaduct": {func(c *canvas) {
		c.ground(grass, lush, 40, 8)
		for _, a := range []float64{0.2, 1.5, 0.8} {
			c.road(float64(c.w)/2, float64(c.h)/2, a, 20, concrete)
			c.road(float64(c.w)/2, float64(c.h)/2, a, 2, white)
		}
	}, []string{"Bridge", "RailwayStation", "Parking"}},
}

// ring paints an ellipse of one colour with an ellipse of another in it; sizes are
// shares of the picture.
func (c *canvas) ring(outer, inner float64, a, b rgb) {
	r := func(x, y float64) float64 {
		dx, dy := (x-float64(c.w)/2)/float64(c.w), (y-float64(c.h)/2)/float64(c.h)
		return math.Sqrt(dx*dx + 2*dy*dy)
	}
	c.where(a, 5, func(x, y float64) bool { return r(x, y) < outer })
	c.where(b, 5, func(x, y float64) bool { return r(x, y) < inner })
}

// Classes are the scene classes, in order.
func Classes() []string { return slices.Sorted(maps.Keys(looks)) }

// model is how an object class looks; sizes are in metres, shapes on -1 … 1.
type model struct {
	length, breadth float64
	turns           bool // lies at any angle
	colour, lines   rgb
	shape           func(along, across float64) bool
	line            func(along, across float64) bool
	like            string // the class that a model takes it for when it errs
}

func box(_, _ float64) bool           { return true }
func oval(along, across float64) bool { return along*along+across*across <= 1 }
func inBox(f func(along, across float64) bool) func(along, across float64) bool {
	return func(a, b float64) bool { return math.Abs(a) <= 1 && math.Abs(b) <= 1 && f(a, b) }
}
func frame(along, across float64) bool { return math.Abs(along) > 0.8 || math.Abs(across) > 0.75 }

var models = map[string]model{
	"plane": {38, 36, true, white, slate, inBox(func(a, b float64) bool {
		return math.Abs(b) < 0.13 || math.Abs(a) < 0.2-0.1*math.Abs(b) || a < -0.8 && math.Abs(b) < 0.4
	}), nil, "large vehicle"},
	"ship": {60, 12, true, rgb{190, 186, 180}, red, inBox(func(a, b float64) bool { return math.Abs(b) < 1-max(a-0.5, 0)*2 }),
		func(a, b float64) bool { return math.Abs(a+0.3) < 0.2 && math.Abs(b) < 0.6 }, "harbor"},
	"storage tank":     {24, 24, false, white, slate, oval, func(a, b float64) bool { return a*a+b*b > 0.8 }, "roundabout"},
	"baseball diamond": {50, 50, false, rgb{176, 130, 90}, grass, inBox(func(a, b float64) bool { return math.Abs(a)+math.Abs(b) <= 1 }), func(a, b float64) bool { return math.Abs(a)+math.Abs(b) < 0.55 }, "soccer ball field"},
	"tennis court": {24, 11, false, rgb{58, 110, 96}, white, inBox(box), func(a, b float64) bool {
		return math.Abs(a) < 0.04 || frame(a, b) && !(math.Abs(a) > 0.9 || math.Abs(b) > 0.9)
	}, "basketball court"},
	"basketball court":   {28, 15, false, rgb{178, 112, 72}, white, inBox(box), func(a, b float64) bool { return math.Abs(a) < 0.04 || oval(3*a, 2*b) && !oval(3.6*a, 2.4*b) }, "tennis court"},
	"ground track field": {176, 92, false, rgb{172, 82, 64}, lush, inBox(oval), func(a, b float64) bool { return oval(a/0.72, b/0.62) }, "soccer ball field"},
	"harbor":             {80, 14, false, concrete, slate, inBox(box), func(a, b float64) bool { return math.Mod(a+1, 0.25) < 0.04 }, "ship"},
	"bridge":             {120, 14, true, concrete.add(14), white, inBox(box), func(_, b float64) bool { return math.Abs(b) < 0.1 }, "harbor"},
	"large vehicle":      {12, 3.4, true, rgb{206, 204, 196}, slate, inBox(box), func(a, _ float64) bool { return a > 0.6 }, "small vehicle"},
	"small vehicle":      {4.8, 2.2, true, rgb{206, 60, 52}, white, inBox(box), nil, "large vehicle"},
	"roundabout":         {44, 44, false, asphalt, lush, inBox(oval), func(a, b float64) bool { return oval(2*a, 2*b) }, "storage tank"},
	"soccer ball field":  {104, 68, false, lush, white, inBox(box), func(a, b float64) bool { return math.Abs(a) < 0.015 || oval(6*a, 4*b) && !oval(6.6*a, 4.5*b) }, "ground track field"},
	"swimming pool":      {22, 11, false, rgb{66, 182, 210}, white, inBox(box), frame, "tennis court"},
	"building":           {18, 13, false, rgb{148, 88, 72}, rgb{176, 112, 92}, inBox(box), func(_, b float64) bool { return b < 0 }, "large vehicle"},
}

// ObjectClasses are the object classes, in order.
func ObjectClasses() []string { return slices.Sorted(maps.Keys(models)) }

// synonyms are other names of object classes.
var synonyms = map[string]string{
	"airplane": "plane", "aircraft": "plane", "boat": "ship", "vessel": "ship", "tank": "storage tank", "oil tank": "storage tank",
	"baseball field": "baseball diamond", "track field": "ground track field", "running track": "ground track field", "harbour": "harbor", "dock": "harbor",
	"truck": "large vehicle", "bus": "large vehicle", "car": "small vehicle", "vehicle": "small vehicle", "football field": "soccer ball field",
	"soccer field": "soccer ball field", "pool": "swimming pool", "house": "building", "basketball field": "basketball court",
}

// ClassOf finds the object class that a prompt names: exactly, or as the longest
// name in a sentence.
func ClassOf(prompt string) (string, bool) {
	words := " " + strings.Join(strings.FieldsFunc(strings.ToLower(prompt), func(r rune) bool { return !('a' <= r && r <= 'z') }), " ") + " "
	best, class := 0, ""
	look := func(name, means string) {
		for _, form := range []string{name, name + "s", name + "es"} {
			if len(name) > best && strings.Contains(words, " "+form+" ") {
				best, class = len(name), means
			}
		}
	}
	for _, name := range ObjectClasses() {
		look(name, name)
	}
	for _, name := range slices.Sorted(maps.Keys(synonyms)) {
		look(name, synonyms[name])
	}
	return class, class != ""
}
