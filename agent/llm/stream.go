package llm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"terraloom/data/strictjson"
)

// errCut is a stream that ended before its end mark.
var errCut = errors.New("the stream ended before [DONE]")

// readStream reads server-sent events up to [DONE] and puts the pieces of the
// first choice together. emit, if any, gets each piece of text.
func readStream(r io.Reader, emit func(string)) (Reply, error) {
	var reply Reply
	var text bytes.Buffer
	calls := map[int]*ToolCall{}
	var order []int
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(in)
		if err != nil {
			if err == io.EOF {
				err = errCut
			}
			return Reply{}, err
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok { // an empty line, a comment, another field
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			break
		}
		v, err := strictjson.Parse(data)
		if err != nil {
			return Reply{}, fmt.Errorf("a piece is not JSON: %w", err)
		}
		if e := v.Get("error"); e.Kind() == strictjson.Object {
			return Reply{}, fmt.Errorf("the server broke off: %s", clip(e.JSON()))
		}
		if u := v.Get("usage"); u.Kind() == strictjson.Object {
			reply.Usage = readUsage(u)
		}
		choice, ok := v.At("/choices/0")
		if !ok || choice.Get("index").Text() != "" && choice.Get("index").Text() != "0" {
			continue
		}
		if f := choice.Get("finish_reason"); f.Kind() == strictjson.String {
			reply.Finish = f.Text()
		}
		delta := choice.Get("delta")
		if piece := delta.Get("content").Text(); piece != "" {
			text.WriteString(piece)
			if emit != nil {
				emit(piece)
			}
		}
		list := delta.Get("tool_calls")
		for i := range list.Len() {
			at, c := i, list.Index(i)
			if f, ok := c.Get("index").Float(); ok {
				at = int(f)
			}
			if calls[at] == nil {
				calls[at] = &ToolCall{}
				order = append(order, at)
			}
			if id := c.Get("id").Text(); id != "" {
				calls[at].ID = id
			}
			f := c.Get("function")
			calls[at].Name += f.Get("name").Text()
			calls[at].Arguments += f.Get("arguments").Text()
		}
	}
	reply.Text = text.String()
	for _, at := range order {
		reply.Calls = append(reply.Calls, *calls[at])
	}
	if reply.Finish == "" {
		return Reply{}, errors.New("the stream has no finish_reason")
	}
	return reply, nil
}

// readLine reads a line of any length, without its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, prefix, err := in.ReadLine()
		if err != nil {
			return nil, err
		}
		if !prefix && long == nil {
			return part, nil
		}
		if long = append(long, part...); !prefix {
			return long, nil
		}
	}
}
