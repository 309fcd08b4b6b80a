package data

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
)

//go:embed seeds/sample.jsonl
var sampleSeeds []byte

// SampleSeeds returns the small bundled seed set, written for this project.
func SampleSeeds() (*ImportResult, error) {
	res := &ImportResult{Report: &ImportReport{}}
	if err := importOwn(res, "sample.jsonl", bytes.NewReader(sampleSeeds)); err != nil {
		return nil, fmt.Errorf("bundled seeds: %w", err)
	}
	sum := sha256.Sum256(sampleSeeds)
	res.Inputs = []Input{{Name: "sample.jsonl", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(sampleSeeds))}}
	res.Report.finish(res.Trajectories)
	return res, nil
}
