package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Board writes TensorBoard event files: records of TensorFlow's TFRecord format (length, masked CRC32C of the length,
// data, masked CRC32C of the data) that each hold one Event message
// (https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto).
type Board struct {
	dir string
	out *os.File
}

// NewBoard makes a folder for event files. The file itself appears with the first event.
func NewBoard(dir string) (*Board, error) {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	return &Board{dir: dir}, nil
}

// eventsName is in the name of every event file: TensorBoard looks for it.
const eventsName = "tfevents"

// Restart removes the event files that are there.
func (b *Board) Restart() error {
	if err := b.Close(); err != nil {
		return err
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), eventsName) {
			if err := os.Remove(filepath.Join(b.dir, e.Name())); err != nil {
				return fmt.Errorf("tensorboard: %w", err)
			}
		}
	}
	return nil
}

// Add writes the numbers of a record.
func (b *Board) Add(r Record) error {
	if b.out == nil {
		name := fmt.Sprintf("events.out.%s.%010d.terraloom.%d", eventsName, r.Time.Unix(), os.Getpid())
		var err error
		if b.out, err = os.OpenFile(filepath.Join(b.dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, metricsFileMode); err != nil {
			return fmt.Errorf("tensorboard: %w", err)
		}
		if err := b.write(event(r.Time, 0, 3, []byte("brain.Event:2"))); err != nil { // file_version
			return err
		}
	}
	var summary []byte
	for _, v := range r.Values {
		value := protowire.AppendTag(nil, 1, protowire.BytesType) // Summary.Value.tag
		value = protowire.AppendString(value, r.Kind+"/"+v.Name)
		value = protowire.AppendTag(value, 2, protowire.Fixed32Type) // Summary.Value.simple_value
		value = protowire.AppendFixed32(value, math.Float32bits(float32(v.Number)))
		summary = protowire.AppendTag(summary, 1, protowire.BytesType) // Summary.value
		summary = protowire.AppendBytes(summary, value)
	}
	if summary == nil {
		return nil
	}
	return b.write(event(r.Time, r.Step, 5, summary)) // summary
}

// event is an Event message with one field of bytes beside time and step.
func event(t time.Time, step int, field protowire.Number, content []byte) []byte {
	m := protowire.AppendTag(nil, 1, protowire.Fixed64Type) // wall_time
	m = protowire.AppendFixed64(m, math.Float64bits(float64(t.UnixNano())/1e9))
	m = protowire.AppendTag(m, 2, protowire.VarintType) // step
	m = protowire.AppendVarint(m, uint64(step))
	m = protowire.AppendTag(m, field, protowire.BytesType)
	return protowire.AppendBytes(m, content)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is TFRecord's checksum: a CRC of data that holds CRCs itself would be weak, so it is rotated and shifted.
func masked(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

func (b *Board) write(data []byte) error {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	record = binary.LittleEndian.AppendUint32(record, masked(record))
	record = append(record, data...)
	record = binary.LittleEndian.AppendUint32(record, masked(data))
	if _, err := b.out.Write(record); err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}

// Sync makes the events durable.
func (b *Board) Sync() error {
	if b.out == nil {
		return nil
	}
	return b.out.Sync()
}

// Close closes the file; the next event opens a new one.
func (b *Board) Close() error {
	if b.out == nil {
		return nil
	}
	out := b.out
	b.out = nil
	if err := out.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}
