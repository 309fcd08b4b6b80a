package data

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

var (
	// ErrCorrupt is returned where a dataset's files differ from its manifest.
	ErrCorrupt = errors.New("the dataset is damaged")
	// ErrNotFound is returned by Find for an unknown id.
	ErrNotFound = errors.New("no such trajectory")
)

// A Dataset is a complete dataset folder, open for reading.
type Dataset struct {
	Dir      string
	Manifest *Manifest
}

// OpenDataset opens a dataset folder and checks that its Parquet files are
// exactly those of the manifest, by size and SHA-256. Errors: ErrNotDataset,
// ErrCorrupt with the file's name.
func OpenDataset(dir string) (*Dataset, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, t := range m.Tables {
		for _, f := range t.Files {
			known[f.Name] = true
			if err := checkFile(dir, f); err != nil {
				return nil, err
			}
		}
	}
	for _, config := range configs {
		entries, err := os.ReadDir(filepath.Join(dir, config))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if name := config + "/" + e.Name(); strings.HasSuffix(name, ".parquet") && !known[name] {
				return nil, fmt.Errorf("%s: %w: %s is not in %s; remove it", dir, ErrCorrupt, name, manifestName)
			}
		}
	}
	return &Dataset{Dir: dir, Manifest: m}, nil
}

func checkFile(dir string, want TableFile) error {
	path := filepath.Join(dir, filepath.FromSlash(want.Name))
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if n != want.Bytes {
		return fmt.Errorf("%s: %w: %d bytes long, %s says %d", path, ErrCorrupt, n, manifestName, want.Bytes)
	}
	if hex.EncodeToString(h.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("%s: %w: its SHA-256 differs from that in %s", path, ErrCorrupt, manifestName)
	}
	return nil
}

func (d *Dataset) table(config, split string) Table {
	for _, t := range d.Manifest.Tables {
		if t.Config == config && t.Split == split {
			return t
		}
	}
	return Table{Config: config, Split: split}
}

// tableRows iterates over the files of one table.
func tableRows[R any](d *Dataset, config, split string) iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		for _, f := range d.table(config, split).Files {
			for row, err := range parquetRows[R](filepath.Join(d.Dir, filepath.FromSlash(f.Name)), schemas[config]) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// Trajectories iterates over a split in file order. An error names file and
// row and ends the iteration.
func (d *Dataset) Trajectories(split string) iter.Seq2[*Trajectory, error] {
	return func(yield func(*Trajectory, error) bool) {
		for _, f := range d.table(ConfigTrajectories, split).Files {
			at := 0
			path := filepath.Join(d.Dir, filepath.FromSlash(f.Name))
			for row, err := range parquetRows[trajectoryRow](path, schemas[ConfigTrajectories]) {
				var t *Trajectory
				if err == nil {
					if t, err = row.trajectory(); err != nil {
						err = fmt.Errorf("%s: row %d (%s): %w", path, at, row.ID, err)
					}
				}
				if !yield(t, err) || err != nil {
					return
				}
				at++
			}
		}
	}
}

// Planner iterates over the Planner rows of a split, as Trajectories does.
func (d *Dataset) Planner(split string) iter.Seq2[*PlannerRow, error] {
	return tableRows[PlannerRow](d, ConfigPlanner, split)
}

// Executor iterates over the Executor rows of a split, as Trajectories does.
func (d *Dataset) Executor(split string) iter.Seq2[*ExecutorRow, error] {
	return tableRows[ExecutorRow](d, ConfigExecutor, split)
}

// Found is a trajectory with its records.
type Found struct {
	Split      string
	Trajectory *Trajectory
	Planner    *PlannerRow // nil where it has none
	Executor   []*ExecutorRow
}

// Find returns the trajectory with the given id and its records, or ErrNotFound.
func (d *Dataset) Find(id string) (*Found, error) {
	for _, split := range Splits {
		rows, err := findRows[trajectoryRow](d, ConfigTrajectories, split, "id", id)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			continue
		}
		found := &Found{Split: split}
		if found.Trajectory, err = rows[0].trajectory(); err != nil {
			return nil, fmt.Errorf("%s: trajectory %s: %w", d.Dir, id, err)
		}
		planner, err := findRows[PlannerRow](d, ConfigPlanner, split, "trajectory_id", id)
		if err != nil {
			return nil, err
		}
		if len(planner) > 0 {
			found.Planner = planner[0]
		}
		found.Executor, err = findRows[ExecutorRow](d, ConfigExecutor, split, "trajectory_id", id)
		return found, err
	}
	return nil, fmt.Errorf("%s: %w: %q", d.Dir, ErrNotFound, id)
}

// findRows searches one table. The rows of a trajectory follow one another, so
// the search ends after the last file with some.
func findRows[R any, P rowPointer[R]](d *Dataset, config, split, column, id string) ([]P, error) {
	var found []P
	for _, f := range d.table(config, split).Files {
		rows, err := findParquet[R, P](filepath.Join(d.Dir, filepath.FromSlash(f.Name)), schemas[config], column, id)
		if err != nil {
			return nil, err
		}
		if found = append(found, rows...); len(rows) == 0 && len(found) > 0 {
			break
		}
	}
	return found, nil
}
