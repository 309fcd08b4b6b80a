package data

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/parquet-go/parquet-go"
	"github.com/xitongsys/parquet-go/common"
	"github.com/xitongsys/parquet-go/layout"
	xparquet "github.com/xitongsys/parquet-go/parquet"
	xschema "github.com/xitongsys/parquet-go/schema"
	"github.com/xitongsys/parquet-go/writer"
)

const (
	pageBytes     = 1 << 20
	rowGroupBytes = 8 << 20 // of row text before encoding
)

// A parquetWriter writes one Parquet file with xitongsys/parquet-go: zstd,
// pages of 1 MiB, no statistics (a minimum and a maximum of long texts would
// repeat them in every page), no page index.
//
// The schema is the one parquet-go/parquet-go derives from the row type, and
// rows are taken apart by it too, so both libraries agree on every column by
// construction and no second set of struct tags exists.
type parquetWriter struct {
	schema *parquet.Schema
	out    *writer.ParquetWriter
	leaves []leaf
}

type leaf struct {
	table layout.Table // the column's constant part
	name  string       // the column's name inside xitongsys
}

// hashedRow is one row on its way to the file and, after it, its hash.
type hashedRow struct {
	row  tableRow
	hash uint64
}

func newParquetWriter(w io.Writer, schema *parquet.Schema) (*parquetWriter, error) {
	pw, err := writer.NewParquetWriterFromWriter(w, appendElements(nil, schema.Name(), schema), 2)
	if err != nil {
		return nil, err
	}
	createdBy := "terraloom"
	pw.Footer.CreatedBy = &createdBy
	pw.PageSize, pw.CompressionType = pageBytes, xparquet.CompressionCodec_ZSTD
	p := &parquetWriter{schema: schema, out: pw}
	sh := pw.SchemaHandler
	for i, e := range sh.SchemaElements {
		if e.GetNumChildren() > 0 {
			continue
		}
		name := sh.IndexMap[int32(i)]
		path := common.StrToPath(name)
		sh.Infos[i].OmitStats = true
		l := leaf{name: name, table: layout.Table{Path: path, Schema: e, Info: sh.Infos[i], RepetitionType: e.GetRepetitionType()}}
		if l.table.MaxDefinitionLevel, err = sh.MaxDefinitionLevel(path); err != nil {
			return nil, err
		}
		if l.table.MaxRepetitionLevel, err = sh.MaxRepetitionLevel(path); err != nil {
			return nil, err
		}
		p.leaves = append(p.leaves, l)
	}
	pw.MarshalFunc = p.marshal
	return p, nil
}

// appendElements lists a node and those below it in the depth-first order of a
// Parquet footer.
func appendElements(list []*xparquet.SchemaElement, name string, n parquet.Node) []*xparquet.SchemaElement {
	e := xparquet.NewSchemaElement()
	e.Name = name
	if len(list) > 0 {
		rt := xparquet.FieldRepetitionType_REQUIRED
		switch {
		case n.Optional():
			rt = xparquet.FieldRepetitionType_OPTIONAL
		case n.Repeated():
			rt = xparquet.FieldRepetitionType_REPEATED
		}
		e.RepetitionType = &rt
	}
	if t := n.Type(); t != nil {
		if c := t.ConvertedType(); c != nil {
			ct := xparquet.ConvertedType(*c)
			e.ConvertedType = &ct
		}
		if l := t.LogicalType(); l != nil {
			e.LogicalType = logicalType(l.String())
		}
	}
	list = append(list, e)
	if n.Leaf() {
		kind := xparquet.Type(n.Type().Kind())
		e.Type = &kind
		return list
	}
	fields := n.Fields()
	count := int32(len(fields))
	e.NumChildren = &count
	for _, f := range fields {
		list = appendElements(list, f.Name(), f)
	}
	return list
}

// logicalType translates the logical types that the row types use.
func logicalType(name string) *xparquet.LogicalType {
	t := xparquet.NewLogicalType()
	switch name {
	case "STRING":
		t.STRING = xparquet.NewStringType()
	case "LIST":
		t.LIST = xparquet.NewListType()
	case "INT(64,true)":
		t.INTEGER = xparquet.NewIntType()
		t.INTEGER.BitWidth, t.INTEGER.IsSigned = 64, true
	default:
		return nil
	}
	return t
}

// rowGroup writes the rows as one row group and sets their hashes.
func (p *parquetWriter) rowGroup(rows []*hashedRow) error {
	for _, r := range rows {
		p.out.Objs = append(p.out.Objs, r)
	}
	return p.out.Flush(true)
}

// marshal turns rows into columns; the writer calls it from two goroutines,
// each with its half of a row group.
func (p *parquetWriter) marshal(rows []any, _ *xschema.SchemaHandler) (*map[string]*layout.Table, error) {
	tables := make([]layout.Table, len(p.leaves))
	for i := range tables {
		tables[i] = p.leaves[i].table
	}
	var buf parquet.Row
	for _, r := range rows {
		row := r.(*hashedRow)
		buf = p.schema.Deconstruct(buf[:0], row.row)
		row.hash = rowHash(buf)
		for _, v := range buf {
			t := &tables[v.Column()]
			if v.Kind() == parquet.ByteArray && !utf8.Valid(v.ByteArray()) {
				return nil, fmt.Errorf("trajectory %s: column %s: invalid UTF-8", row.row.trajectoryID(), strings.Join(p.schema.Columns()[v.Column()], "."))
			}
			t.Values = append(t.Values, plainValue(v))
			t.DefinitionLevels = append(t.DefinitionLevels, int32(v.DefinitionLevel()))
			t.RepetitionLevels = append(t.RepetitionLevels, int32(v.RepetitionLevel()))
		}
		row.row = nil // let it go before the next step of the pipeline
	}
	byName := make(map[string]*layout.Table, len(tables))
	for i := range tables {
		byName[p.leaves[i].name] = &tables[i]
	}
	return &byName, nil
}

// plainValue is v as xitongsys encodes it.
func plainValue(v parquet.Value) any {
	switch {
	case v.IsNull():
		return nil
	case v.Kind() == parquet.Int64:
		return v.Int64()
	}
	return string(v.ByteArray())
}

var hashSeed = maphash.MakeSeed()

// rowHash hashes a row taken apart into columns: values, nulls and levels. It
// is comparable within this process only.
func rowHash(row parquet.Row) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	var b [16]byte
	for _, v := range row {
		var text []byte
		var n uint64
		switch v.Kind() {
		case parquet.ByteArray:
			text = v.ByteArray()
			n = uint64(len(text))
		case parquet.Int64:
			n = uint64(v.Int64())
		}
		b[0], b[1], b[2], b[3] = byte(v.Column()), byte(v.DefinitionLevel()), byte(v.RepetitionLevel()), byte(v.Kind())
		binary.LittleEndian.PutUint64(b[8:], n)
		h.Write(b[:])
		h.Write(text)
	}
	return h.Sum64()
}

// close writes the footer. WriteStop of the library would write a page index
// too, which counts values where readers expect rows in nested columns.
func (p *parquetWriter) close() error {
	if len(p.out.Objs) > 0 || len(p.out.PagesMapBuf) > 0 {
		return errors.New("rows left outside a row group")
	}
	p.out.RenameSchema()
	ts := thrift.NewTSerializer()
	ts.Protocol = thrift.NewTCompactProtocolFactoryConf(nil).GetProtocol(ts.Transport)
	footer, err := ts.Write(context.Background(), p.out.Footer)
	if err != nil {
		return fmt.Errorf("encode the footer: %w", err)
	}
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	_, err = p.out.PFile.Write(append(footer, "PAR1"...))
	return err
}
