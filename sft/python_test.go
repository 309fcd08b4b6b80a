package sft

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"terraloom/lora/adapter"
	"terraloom/lora/checkpoint"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/traintest"
)

// pythonWith is a Python that has the modules, named by TERRALOOM_PYTHON, or skips the test.
func pythonWith(t *testing.T, modules string) (script func(text string, args ...string) string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts PyTorch")
	}
	name := os.Getenv("TERRALOOM_PYTHON")
	if name == "" {
		name = "python3"
	}
	if err := exec.Command(name, "-c", "import "+modules).Run(); err != nil {
		t.Skipf("no Python with %s (set TERRALOOM_PYTHON): %v", modules, err)
	}
	return func(text string, args ...string) string { // returns the last line that it prints
		cmd := exec.Command(name, append([]string{"-c", text}, args...)...)
		cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "TOKENIZERS_PARALLELISM=false", "HF_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return lines[len(lines)-1]
	}
}

const trlScript = `
import sys, json
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from peft import PeftModel
from trl import SFTConfig, SFTTrainer
base, dataset, adapter, template, out, lr, steps = sys.argv[1:]
tok = AutoTokenizer.from_pretrained(base)
tok.chat_template = open(template).read()
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype="float32"), adapter, is_trainable=True)
rows = load_dataset(dataset, "planner", split="train")
trainer = SFTTrainer(model=model, train_dataset=rows, processing_class=tok, args=SFTConfig(
    output_dir=out, learning_rate=float(lr), lr_scheduler_type="cosine", warmup_steps=0, max_steps=int(steps),
    per_device_train_batch_size=len(rows), weight_decay=0.0, max_grad_norm=1.0, max_length=128, bf16=False,
    gradient_checkpointing=False, logging_steps=1, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True))
trainer.train()
log = [h for h in trainer.state.log_history if "loss" in h]
print(json.dumps({"loss": [h["loss"] for h in log], "norm": [h["grad_norm"] for h in log]}))
`

// TRL's SFTTrainer takes the dataset folder, the base and the adapter as they are, and its run is ours: the same losses and
// gradient norms at every step. All rows are in each step, so neither side's order matters.
func TestTRLTrainsTheSame(t *testing.T) {
	python := pythonWith(t, "trl, peft, datasets")
	c := tinyConfig(t, tinyBase(t, checkpoint.Llama), tinyDataset(t, map[string]int{"train": 6}, nil))
	// TRL labels what a template writes after the end of turn too: here that is nothing.
	c.Template.File = filepath.Join(t.TempDir(), "template.jinja")
	check(t, os.WriteFile(c.Template.File, []byte(strings.Replace(traintest.ChatML, `'<|im_end|>\n'`, `'<|im_end|>'`, 1)), 0o644))
	c.Data.Validation, c.Batch.Rows, c.Optimizer.LR = "", 6, 1e-2
	c.Schedule = train.Schedule{Kind: train.Cosine, Steps: 4}
	start := filepath.Join(t.TempDir(), "start")
	check(t, prepare(t, c).Base.Start.Save(start, adapter.SaveOptions{}))

	var theirs struct{ Loss, Norm []float64 }
	line := python(trlScript, c.Base, c.Dataset, start, c.Template.File, t.TempDir(), "1e-2", "4")
	check(t, json.Unmarshal([]byte(line), &theirs))
	mustRun(t, c, "never")
	ours := traintest.Records(t, c.Out, run.Train)
	if len(theirs.Loss) != 4 || len(ours) != 4 {
		t.Fatalf("TRL did %d steps, we %d", len(theirs.Loss), len(ours))
	}
	for i, r := range ours {
		loss, norm := traintest.Value(t, r, "loss"), traintest.Value(t, r, "grad_norm")
		t.Logf("step %d: loss %.6f, TRL %.6f; gradient norm %.6f, TRL %.6f", i, loss, theirs.Loss[i], norm, theirs.Norm[i])
		if math.Abs(loss-theirs.Loss[i]) > 1e-5*theirs.Loss[i] || math.Abs(norm-theirs.Norm[i]) > 1e-4*theirs.Norm[i] {
			t.Errorf("step %d: loss %v and norm %v, TRL has %v and %v", i, loss, norm, theirs.Loss[i], theirs.Norm[i])
		}
	}
}

const peftScript = `
import sys, json, torch
from transformers import AutoModelForCausalLM
from peft import PeftModel
base, adapter, rows = sys.argv[1:]
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype="float32"), adapter).eval()
nll, n = 0.0, 0
with torch.no_grad():
    for row in json.loads(rows):
        ids = torch.tensor([row["ids"]])
        logp = model(ids).logits.log_softmax(-1)[0]
        for i in range(row["prompt"], len(row["ids"])):
            nll -= logp[i - 1, row["ids"][i]].item()
            n += 1
print(json.dumps({"loss": nll / n}))
`

// PEFT loads the adapter that a run writes, every tensor of it, and the model has the validation loss that the run
// measured last.
func TestPEFTLoadsTheResult(t *testing.T) {
	python := pythonWith(t, "peft, torch")
	for _, family := range []checkpoint.Family{checkpoint.Llama, checkpoint.Qwen35} {
		t.Run(string(family), func(t *testing.T) {
			c := tinyConfig(t, tinyBase(t, family), tinyDataset(t, map[string]int{"train": 4, "validation": 3}, nil))
			c.Schedule.Steps = 3
			res := mustRun(t, c, "never")
			type row struct {
				IDs    []int32 `json:"ids"`
				Prompt int     `json:"prompt"`
			}
			var rows []row
			for _, r := range prepare(t, c).Validation.Rows {
				rows = append(rows, row{r.Tokens, r.Prompt})
			}
			text, err := json.Marshal(rows)
			check(t, err)
			var theirs struct{ Loss float64 }
			check(t, json.Unmarshal([]byte(python(peftScript, c.Base, res.Path, string(text))), &theirs))
			validation := traintest.Records(t, c.Out, run.Validation)
			if got := traintest.Value(t, validation[len(validation)-1], "loss"); math.Abs(got-theirs.Loss) > 2e-5*theirs.Loss {
				t.Errorf("loss %v, PEFT has %v", got, theirs.Loss)
			}
		})
	}
}
