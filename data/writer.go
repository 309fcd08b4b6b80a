package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

// WriterOptions are the options of CreateDataset.
type WriterOptions struct {
	Force       bool // replace an existing dataset of the same name
	RowsPerFile int  // 0 means 20,000
}

const defaultRowsPerFile = 20_000

// A Writer writes a dataset folder. Rows stream through it in bounded memory:
// they are encoded, compressed, written and read back by other goroutines while
// the caller makes the next ones. The bytes depend on the rows and their order
// alone. A Writer is for one goroutine.
type Writer struct {
	folder *pendingFolder
	work   *workers
	tables map[string]map[string]*tableWriter // by config and split
	ids    map[string]bool
	split  map[string]string // of each seed
	done   bool
}

// CreateDataset starts a dataset folder. It appears under the name dir when
// Finish has returned nil, complete; until then, and after Abort, dir is as it
// was. The error is ErrExists where dir exists (with Force: and is not a
// dataset) and ErrLocked where another run is writing it.
func CreateDataset(dir string, o WriterOptions) (*Writer, error) {
	if o.RowsPerFile == 0 {
		o.RowsPerFile = defaultRowsPerFile
	}
	if o.RowsPerFile < 0 {
		return nil, fmt.Errorf("rows per file must be positive, not %d", o.RowsPerFile)
	}
	folder, err := newPendingFolder(dir, o.Force, func(dir string) error {
		_, err := ReadManifest(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	w := &Writer{
		folder: folder, work: newWorkers(), tables: map[string]map[string]*tableWriter{},
		ids: map[string]bool{}, split: map[string]string{},
	}
	for _, config := range configs {
		if err := os.Mkdir(filepath.Join(folder.path, config), 0o755); err != nil {
			return nil, errors.Join(err, folder.discard())
		}
		w.tables[config] = map[string]*tableWriter{}
		for _, split := range Splits {
			w.tables[config][split] = &tableWriter{
				config: config, split: split, dir: folder.path, schema: schemas[config], rowsPerFile: o.RowsPerFile, work: w.work,
			}
		}
	}
	return w, nil
}

// Add appends a trajectory and its records to a split. A PlannerRow without a
// prompt stands for none. Refused are a repeated id, a seed that is already in
// another split, and records that belong to another trajectory. The Writer
// keeps the texts until they are written; it does not keep t.
func (w *Writer) Add(split string, t *Trajectory, planner PlannerRow, executor []ExecutorRow) error {
	if !slices.Contains(Splits, split) {
		return fmt.Errorf("trajectory %s: split %q is none of %s", t.ID, split, strings.Join(Splits, ", "))
	}
	if err := complete(t); err != nil {
		return fmt.Errorf("trajectory %q: %w", t.ID, err)
	}
	if len(planner.Prompt) > 0 && planner.TrajectoryID != t.ID {
		return fmt.Errorf("trajectory %s: got the planner row of %q", t.ID, planner.TrajectoryID)
	}
	for i := range executor {
		if executor[i].TrajectoryID != t.ID {
			return fmt.Errorf("trajectory %s: executor row %d belongs to %q", t.ID, i, executor[i].TrajectoryID)
		}
	}
	if err := w.addRow(ConfigTrajectories, split, rowOf(t)); err != nil {
		return err
	}
	if len(planner.Prompt) > 0 {
		if err := w.addRow(ConfigPlanner, split, &planner); err != nil {
			return err
		}
	}
	for i := range executor {
		if err := w.addRow(ConfigExecutor, split, &executor[i]); err != nil {
			return err
		}
	}
	return nil
}

// complete checks what DecodeTrajectory will ask for.
func complete(t *Trajectory) error {
	for _, m := range []struct{ name, text string }{{"id", t.ID}, {"seed_id", t.SeedID}, {"source", t.Source}, {"domain", t.Domain}, {"query", t.Query}} {
		if m.text == "" {
			return fmt.Errorf("%s is empty", m.name)
		}
	}
	if len(t.Steps) == 0 {
		return errors.New("it has no steps")
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.Tool == "" || s.Arguments.Kind() != strictjson.Object {
			return fmt.Errorf("step %d: needs a tool and an object of arguments", i)
		}
		for _, u := range s.Uses {
			if u.From < 0 || u.From >= i || u.Transform == "" {
				return fmt.Errorf("step %d: an edge from step %d with the transform %q", i, u.From, u.Transform)
			}
		}
	}
	return nil
}

// addRow appends one row to one table. Trajectories come before their records.
func (w *Writer) addRow(config, split string, row tableRow) error {
	if err := w.work.failure(); err != nil {
		return err
	}
	if t, ok := row.(*trajectoryRow); ok {
		if w.ids[t.ID] {
			return fmt.Errorf("trajectory %s: the id is already in the dataset", t.ID)
		}
		if other, ok := w.split[t.SeedID]; ok && other != split {
			return fmt.Errorf("trajectory %s: its seed %s is in split %s already and may not be in %s too", t.ID, t.SeedID, other, split)
		}
		w.ids[t.ID], w.split[t.SeedID] = true, split
	}
	w.tables[config][split].add(row)
	return nil
}

// Finish writes what is left, reads every file back, completes m (Format, Code
// where empty, Tables), writes README.md, manifest.json and report.html and
// gives the folder its name. After an error the folder is gone.
func (w *Writer) Finish(m *Manifest) error {
	if w.done {
		return errors.New("the dataset is already finished or aborted")
	}
	err := w.finish(m)
	return errors.Join(err, w.Abort())
}

func (w *Writer) finish(m *Manifest) error {
	for _, config := range configs {
		for _, split := range Splits {
			w.tables[config][split].endFile()
		}
	}
	w.work.wg.Wait()
	if err := w.work.failure(); err != nil {
		return err
	}
	m.Format, m.Tables = parquetFormat, nil
	if m.Code.Module == "" {
		m.Code = BuildCode()
	}
	if m.Options.IsAbsent() {
		m.Options = strictjson.Obj()
	}
	m.Inputs, m.Counts, m.Refusals = orEmpty(m.Inputs), orEmpty(m.Counts), orEmpty(m.Refusals)
	for _, config := range configs {
		for _, split := range Splits {
			table, err := w.tables[config][split].nameFiles()
			if err != nil {
				return err
			}
			m.Tables = append(m.Tables, table)
		}
	}
	if m.Shard == nil && m.Rows(ConfigTrajectories) == 0 {
		return errors.New("the dataset has no rows")
	}
	manifest, err := m.encode()
	if err != nil {
		return err
	}
	report, err := reportHTML(m, w.tables)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{"README.md", datasetCard(m)}, {"report.html", report}, {manifestName, manifest}} {
		if err := os.WriteFile(filepath.Join(w.folder.path, f.name), f.text, 0o644); err != nil {
			return err
		}
	}
	return w.folder.publish()
}

// orEmpty makes nil and empty lists one thing in the manifest.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// nameFiles gives the files of a table their names, which hold the number of files.
func (t *tableWriter) nameFiles() (Table, error) {
	table := Table{Config: t.config, Split: t.split, Files: []TableFile{}}
	for i, f := range t.files {
		f.info.Name = fmt.Sprintf("%s/%s-%05d-of-%05d.parquet", t.config, t.split, i, len(t.files))
		if err := os.Rename(f.path, filepath.Join(t.dir, filepath.FromSlash(f.info.Name))); err != nil {
			return table, err
		}
		table.Files = append(table.Files, f.info)
		table.Rows += f.info.Rows
	}
	return table, nil
}

// Abort gives the dataset up and removes what was written of it. After Finish
// it does nothing, so that it can be deferred.
func (w *Writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	w.work.fail(errors.New("aborted"))
	w.work.wg.Wait()
	for _, splits := range w.tables {
		for _, t := range splits {
			for _, f := range t.files {
				if f.f != nil {
					f.f.Close() // of an unfinished file; closing a finished one again does no harm
				}
			}
		}
	}
	return w.folder.discard()
}
