package synthetic_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"terraloom/agent/archive"
	"terraloom/agent/archive/synthetic"
)

// The acquisition of a paper's figure: yearly night lights of Leon.
func Example() {
	dir, err := os.MkdirTemp("", "lights")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	files, err := archive.Fetch(context.Background(), synthetic.New(1, nil), archive.Spec{
		Product:  "VIIRS nighttime lights",
		Bands:    []string{"avg_rad"},
		Box:      archive.Box{West: -101.84, South: 20.98, East: -101.54, North: 21.23},
		Start:    time.Date(2013, 1, 1, 0, 0, 0, 0, time.UTC),
		End:      time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC),
		Interval: "year",
		ScaleM:   1000,
		Name:     "Leon",
	}, dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range files {
		fmt.Println(filepath.Base(f.Path), f.Days, "days,", f.Width, "×", f.Height, f.Unit)
	}
	// Output:
	// Leon_avg_rad_2013-01-01.tif 365 days, 34 × 29 nW/cm²/sr
	// Leon_avg_rad_2014-01-01.tif 365 days, 34 × 29 nW/cm²/sr
	// Leon_avg_rad_2015-01-01.tif 365 days, 34 × 29 nW/cm²/sr
}
