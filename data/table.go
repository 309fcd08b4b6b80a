package data

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/parquet-go/parquet-go"

	"terraloom/data/strictjson"
)

// The configs of a dataset, in the order they are written.
const (
	ConfigTrajectories = "trajectories"
	ConfigPlanner      = "planner"
	ConfigExecutor     = "executor"
)

var configs = []string{ConfigTrajectories, ConfigPlanner, ConfigExecutor}

// schemas hold the columns of each config, derived from its row type.
var schemas = map[string]*parquet.Schema{
	ConfigTrajectories: parquet.NewSchema("trajectory", parquet.SchemaOf(new(trajectoryRow))),
	ConfigPlanner:      parquet.NewSchema("planner", parquet.SchemaOf(new(PlannerRow))),
	ConfigExecutor:     parquet.NewSchema("executor", parquet.SchemaOf(new(ExecutorRow))),
}

// tableRow is a row of one of the tables.
type tableRow interface {
	trajectoryID() string
	rowBytes() int
	Value() strictjson.Value
}

// sampleRows rows of each table are shown in the report.
const sampleRows = 3

// workers runs the encoding and checking of row groups beside the caller. Few
// are in work at a time, which bounds the memory.
type workers struct {
	slots chan struct{}
	wg    sync.WaitGroup
	mu    sync.Mutex
	err   error
}

func newWorkers() *workers {
	return &workers{slots: make(chan struct{}, min(runtime.GOMAXPROCS(0), 4))}
}

// fail keeps the first error; later ones are mostly its echoes.
func (w *workers) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

func (w *workers) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// run calls f in a goroutine as soon as a slot is free, after `after` has
// closed, and returns a channel that closes when f is done.
func (w *workers) run(after <-chan struct{}, f func() error) <-chan struct{} {
	done := make(chan struct{})
	w.slots <- struct{}{}
	w.wg.Add(1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				w.fail(fmt.Errorf("write a row group: %v", r))
			}
			<-w.slots
			close(done)
			w.wg.Done()
		}()
		if after != nil {
			<-after
		}
		if w.failure() == nil {
			if err := f(); err != nil {
				w.fail(err)
			}
		}
	}()
	return done
}

// tableWriter writes one config and split: row groups of about rowGroupBytes
// and files of rowsPerFile rows, both a function of the rows alone.
type tableWriter struct {
	config, split string
	dir           string // of the dataset
	schema        *parquet.Schema
	rowsPerFile   int
	work          *workers

	samples      []tableRow // the first rows, for the report
	pending      []*hashedRow
	pendingBytes int
	fileRows     int             // of the file being filled, pending rows included
	last         <-chan struct{} // closed when the previous row group is written
	file         *tableFile
	files        []*tableFile
}

// tableFile is one Parquet file while it is written. Only the work of its
// table, one piece at a time, touches it.
type tableFile struct {
	path   string
	f      *os.File
	buf    *bufio.Writer
	sum    hash.Hash
	pw     *parquetWriter
	ids    []string
	hashes []uint64
	info   TableFile
}

func (t *tableWriter) add(row tableRow) {
	if len(t.samples) < sampleRows {
		t.samples = append(t.samples, row)
	}
	if t.file == nil {
		name := fmt.Sprintf("%s/%s-%05d.parquet", t.config, t.split, len(t.files))
		t.file = &tableFile{path: filepath.Join(t.dir, filepath.FromSlash(name)), info: TableFile{Name: name}}
		t.files = append(t.files, t.file)
	}
	t.pending = append(t.pending, &hashedRow{row: row})
	t.file.ids = append(t.file.ids, row.trajectoryID())
	t.pendingBytes += row.rowBytes()
	t.fileRows++
	switch {
	case t.fileRows == t.rowsPerFile:
		t.endFile()
	case t.pendingBytes >= rowGroupBytes:
		t.flush()
	}
}

// flush hands the pending rows to the workers as one row group.
func (t *tableWriter) flush() {
	rows, file := t.pending, t.file
	t.pending, t.pendingBytes = nil, 0
	t.last = t.work.run(t.last, func() error { return file.write(t.schema, rows) })
}

func (t *tableWriter) endFile() {
	if t.file == nil {
		return
	}
	if len(t.pending) > 0 {
		t.flush()
	}
	file := t.file
	t.file, t.fileRows = nil, 0
	t.last = t.work.run(t.last, func() error { return file.finish(t.schema) })
}

func (f *tableFile) open(schema *parquet.Schema) (err error) {
	if f.f, err = os.Create(f.path); err != nil {
		return err
	}
	f.sum = sha256.New()
	f.buf = bufio.NewWriterSize(io.MultiWriter(f.f, f.sum), 1<<20)
	f.pw, err = newParquetWriter(f.buf, schema)
	return err
}

func (f *tableFile) write(schema *parquet.Schema, rows []*hashedRow) error {
	if f.f == nil {
		if err := f.open(schema); err != nil {
			return err
		}
	}
	if err := f.pw.rowGroup(rows); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	for _, r := range rows {
		f.hashes = append(f.hashes, r.hash)
	}
	return nil
}

// finish completes the file and reads it back.
func (f *tableFile) finish(schema *parquet.Schema) error {
	err := f.pw.close()
	if err == nil {
		err = f.buf.Flush()
	}
	info, statErr := f.f.Stat()
	if err = errors.Join(err, statErr, f.f.Close()); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.info.Rows, f.info.Bytes = len(f.hashes), info.Size()
	f.info.SHA256 = hex.EncodeToString(f.sum.Sum(nil))
	err = verifyParquet(f.path, schema, f.hashes, func(row int) string { return f.ids[row] })
	f.ids, f.hashes, f.pw, f.buf, f.sum = nil, nil, nil, nil, nil
	return err
}
