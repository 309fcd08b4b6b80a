package data

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"

	"terraloom/data/strictjson"
)

// seeds holds the bundled seeds (*.jsonl), the specifications that they were
// carried out from (*.yaml) and their slot programs (programs/*.yaml).
//
//go:embed seeds
var seeds embed.FS

// SeedFiles is the folder of the bundled seeds.
func SeedFiles() fs.FS {
	dir, err := fs.Sub(seeds, "seeds")
	if err != nil {
		panic(err) // the name is valid
	}
	return dir
}

// SeedPrograms is the folder of their slot programs, <seed id>.yaml each, for the
// regime "ow".
func SeedPrograms() fs.FS {
	dir, err := fs.Sub(SeedFiles(), "programs")
	if err != nil {
		panic(err) // the name is valid
	}
	return dir
}

// seedFiles are the files of bundled seeds, in the order of their task cores.
var seedFiles = []string{"spectrum.jsonl", "products.jsonl", "rgb.jsonl"}

// Seeds returns the bundled open-world seeds, written and carried out for this
// project. regime chooses the question and what is at hand before the first step:
// "ow" (also ""), "ap" or "if"; see the regimes of Earth-Agent-Pro Eq. 2.
func Seeds(regime string) (*ImportResult, error) {
	if regime != "" && regime != "ow" && regime != "ap" && regime != "if" {
		return nil, fmt.Errorf("bundled seeds: regime %q is none of ow, ap, if", regime)
	}
	res := &ImportResult{Report: &ImportReport{}}
	for _, name := range seedFiles {
		text, err := fs.ReadFile(SeedFiles(), name)
		if err != nil {
			return nil, fmt.Errorf("bundled seeds: %w", err)
		}
		if err := importOwn(res, name, bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("bundled seeds: %w", err)
		}
		sum := sha256.Sum256(text)
		res.Inputs = append(res.Inputs, Input{Name: name, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(text))})
	}
	if regime == "ap" || regime == "if" {
		for _, t := range res.Trajectories {
			question, prepared := t.Provenance.Get("question_"+regime), t.Provenance.Get("prepared")
			if question.Kind() != strictjson.String || prepared.Kind() != strictjson.Object {
				return nil, fmt.Errorf("bundled seeds: %s has no question for the regime %s", t.ID, regime)
			}
			t.Regime, t.Query, t.Inputs = regime, question.Text(), prepared
		}
	}
	res.Report.finish(res.Trajectories)
	return res, nil
}
