package sft

import (
	"testing"

	"terraloom/lora/decoder"
	"terraloom/lora/train/traintest"
)

func TestMain(m *testing.M) { traintest.Main(m) }

var check = traintest.Check

var float32Precision = string(decoder.Float32)
