package run

import (
	"fmt"
	"regexp"
	"strings"

	"terraloom/data/strictjson"
)

var (
	thought = regexp.MustCompile(`(?s)^\s*<think>.*?</think>`)
	fence   = regexp.MustCompile("(?s)^```[a-zA-Z]*\\s*\n(.*?)\n?```$")
)

// bare is a model's reply without reasoning before it and a code fence around it,
// which untrained models add.
func bare(text string) string {
	text = strings.TrimSpace(thought.ReplaceAllString(text, ""))
	if m := fence.FindStringSubmatch(text); m != nil {
		text = strings.TrimSpace(m[1])
	}
	return text
}

// objectIn parses a reply that must be one JSON object.
func objectIn(text string) (strictjson.Value, error) {
	v, err := strictjson.Parse([]byte(bare(text)))
	if err != nil {
		return v, fmt.Errorf("the reply is not JSON: %w", err)
	}
	if v.Kind() != strictjson.Object {
		return v, fmt.Errorf("the reply must be one JSON object, found %s", v.Kind())
	}
	return v, nil
}

// clip shortens a text.
func clip(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
