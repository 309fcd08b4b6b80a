package data

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"terraloom/data/strictjson"
)

// ExportJSONL writes a dataset as JSONL: DIR/<config>/<split>.jsonl, one row a
// line, and a manifest.json from which ImportJSONL makes the same dataset
// again. The folder appears whole or not at all; force replaces an earlier export.
func ExportJSONL(ds *Dataset, dir string, force bool) (err error) {
	folder, err := newPendingFolder(dir, force, func(dir string) error {
		_, err := readManifest(dir, jsonlFormat)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.discard()) }()
	m := *ds.Manifest
	m.Format, m.Tables = jsonlFormat, nil
	for _, config := range configs {
		if err := os.Mkdir(filepath.Join(folder.path, config), 0o755); err != nil {
			return err
		}
		for _, split := range Splits {
			table := Table{Config: config, Split: split, Rows: ds.table(config, split).Rows, Files: []TableFile{}}
			if table.Rows > 0 {
				f, err := exportTable(ds, folder.path, config, split)
				if err != nil {
					return err
				}
				table.Files = append(table.Files, f)
			}
			m.Tables = append(m.Tables, table)
		}
	}
	text, err := m.encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder.path, manifestName), text, 0o644); err != nil {
		return err
	}
	return folder.publish()
}

func exportTable(ds *Dataset, dir, config, split string) (info TableFile, err error) {
	info.Name = config + "/" + split + ".jsonl"
	f, err := os.Create(filepath.Join(dir, filepath.FromSlash(info.Name)))
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, h), 1<<20)
	var line []byte
	for row, err := range ds.rows(config, split) {
		if err != nil {
			return info, err
		}
		line = append(row.Value().AppendJSON(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			return info, err
		}
		info.Rows++
		info.Bytes += int64(len(line))
	}
	err = w.Flush()
	info.SHA256 = hex.EncodeToString(h.Sum(nil))
	return info, err
}

// ImportJSONL makes a dataset of a folder that ExportJSONL wrote. Lines that
// were edited, so that the manifest's hashes no longer hold, are refused.
func ImportJSONL(dir, out string, o WriterOptions) (*Manifest, error) {
	m, err := readManifest(dir, jsonlFormat)
	if err != nil {
		return nil, err
	}
	w, err := CreateDataset(out, o)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	for _, config := range configs {
		for _, t := range m.Tables {
			if t.Config != config {
				continue
			}
			for _, f := range t.Files {
				if err := checkFile(dir, f); err != nil {
					return nil, err
				}
				if err := importTable(w, filepath.Join(dir, filepath.FromSlash(f.Name)), config, t.Split); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := w.Finish(m); err != nil {
		return nil, err
	}
	return m, nil
}

func importTable(w *Writer, path, config, split string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return strictjson.Lines(f, path, func(line int, v strictjson.Value) error {
		row, err := decodeRow(config, v)
		if err == nil {
			err = w.addRow(config, split, row)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
		return nil
	})
}

func decodeRow(config string, v strictjson.Value) (tableRow, error) {
	switch config {
	case ConfigTrajectories:
		t, err := DecodeTrajectory(v)
		return rowOf(&t), err
	case ConfigPlanner:
		r, err := DecodePlannerRow(v)
		return &r, err
	default:
		r, err := DecodeExecutorRow(v)
		return &r, err
	}
}
