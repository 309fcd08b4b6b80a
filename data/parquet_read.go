package data

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/parquet-go/parquet-go"
)

// rowPointer is the pointer to a row type.
type rowPointer[R any] interface {
	*R
	tableRow
}

// readBatch rows are decoded at a time: enough to spread the cost of a call,
// few enough that long rows stay small in memory.
const readBatch = 64

// openParquet opens a Parquet file and checks that it has the columns of schema.
func openParquet(path string, schema *parquet.Schema) (f *os.File, pf *parquet.File, err error) {
	if f, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	defer recoverTo(&err, path)
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	pf, err = parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if !parquet.EqualNodes(schema, pf.Schema()) {
		return nil, nil, fmt.Errorf("%s: has other columns than this table:\n%s\nexpected:\n%s", path, pf.Schema(), schema)
	}
	return f, pf, nil
}

// verifyParquet reads a file back with parquet-go/parquet-go, another decoder
// than the one that wrote it, and compares every row with its hash.
func verifyParquet(path string, schema *parquet.Schema, hashes []uint64, id func(row int) string) (err error) {
	defer recoverTo(&err, path)
	f, pf, err := openParquet(path, schema)
	if err != nil {
		return err
	}
	defer f.Close()
	if pf.NumRows() != int64(len(hashes)) {
		return fmt.Errorf("%s: read back %d rows of %d written", path, pf.NumRows(), len(hashes))
	}
	at := 0
	for _, group := range pf.RowGroups() {
		rows := group.Rows()
		buf := make([]parquet.Row, readBatch)
		for {
			n, err := rows.ReadRows(buf)
			for _, row := range buf[:n] {
				if at == len(hashes) || rowHash(row) != hashes[at] {
					rows.Close()
					return fmt.Errorf("%s: row %d (%s) reads back with other content than was written", path, at, id(at))
				}
				at++
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				rows.Close()
				return fmt.Errorf("%s: row %d: read back: %w", path, at, err)
			}
		}
		if err := rows.Close(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if at != len(hashes) {
		return fmt.Errorf("%s: read back %d rows of %d written", path, at, len(hashes))
	}
	return nil
}

// parquetRows iterates over the rows of a file in order. An error names the
// file and the 0-based row and ends the iteration.
func parquetRows[R any](path string, schema *parquet.Schema) iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		f, pf, err := openParquet(path, schema)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		rd := parquet.NewGenericReader[R](pf)
		defer rd.Close()
		for at := 0; ; {
			rows := make([]R, readBatch)
			n, err := readRows(rd, rows, path)
			for i := range rows[:n] {
				if !yield(&rows[i], nil) {
					return
				}
				at++
			}
			if errors.Is(err, io.EOF) {
				if int64(at) != pf.NumRows() {
					yield(nil, fmt.Errorf("%s: the footer promises %d rows, %d were found", path, pf.NumRows(), at))
				}
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("%s: row %d: %w", path, at, err))
				return
			}
		}
	}
}

// findParquet returns the rows of a file whose column holds the text id. It
// reads that column alone until it meets a row group with a match.
func findParquet[R any, P rowPointer[R]](path string, schema *parquet.Schema, column, id string) (found []P, err error) {
	f, pf, err := openParquet(path, schema)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	leaf, ok := schema.Lookup(column)
	if !ok {
		return nil, fmt.Errorf("%s: no column %q", path, column)
	}
	for _, group := range pf.RowGroups() {
		has, err := columnHas(group.ColumnChunks()[leaf.ColumnIndex], id, path)
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		rd := parquet.NewGenericRowGroupReader[R](group)
		rows := make([]R, group.NumRows())
		n, err := readRows(rd, rows, path)
		if err := errors.Join(ignoreEOF(err), rd.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for i := range rows[:n] {
			if P(&rows[i]).trajectoryID() == id {
				found = append(found, &rows[i])
			}
		}
	}
	return found, nil
}

func columnHas(chunk parquet.ColumnChunk, text, path string) (has bool, err error) {
	defer recoverTo(&err, path)
	pages := chunk.Pages()
	defer pages.Close()
	values := make([]parquet.Value, 1024)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		for rd := page.Values(); ; {
			n, err := rd.ReadValues(values)
			for _, v := range values[:n] {
				if string(v.ByteArray()) == text {
					return true, nil
				}
			}
			if ignoreEOF(err) != nil {
				return false, fmt.Errorf("%s: %w", path, err)
			}
			if err != nil {
				break
			}
		}
		parquet.Release(page)
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func readRows[R any](rd *parquet.GenericReader[R], rows []R, path string) (n int, err error) {
	defer recoverTo(&err, path)
	return rd.Read(rows)
}

// recoverTo turns a panic of a decoder on damaged bytes into an error.
func recoverTo(err *error, path string) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: damaged Parquet file: %v", path, r)
	}
}
