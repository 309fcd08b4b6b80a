package setup

import (
	"fmt"
	"os"
	"strings"

	"terraloom/data"
	"terraloom/lora/provenance"
	"terraloom/lora/train"
	"terraloom/lora/train/run"
	"terraloom/lora/train/settings"
)

// Result is what a run made.
type Result struct {
	Path    string // adapter or model folder
	Summary *train.Summary
}

// Entries are a trainer's configuration and the identity of what is trained with, for checkpoints and adapters. hash is that
// of the dataset's manifest.
func (b *Base) Entries(config any, origins settings.Origins, id provenance.Identity, dataset, hash string) ([]settings.Entry, error) {
	list, err := settings.Entries(config, origins)
	base := b.Config.Base
	return append(list,
		settings.Entry{Key: "base.sha256", Value: id.Base, Origin: base},
		settings.Entry{Key: "tokenizer.sha256", Value: id.Tokenizer, Origin: base},
		settings.Entry{Key: "template.sha256", Value: id.Template, Origin: base},
		settings.Entry{Key: "dataset.sha256", Value: hash, Origin: dataset}), err
}

// WriteConfig puts a verb's resolved configuration into the run folder. A run that resumes keeps the one it has: whether the
// two agree has yet to be seen.
func WriteConfig(folder *run.Folder, verb string, config any, origins settings.Origins, resumes bool) error {
	path := folder.Path(run.ConfigFile)
	if _, err := os.Stat(path); err == nil && resumes {
		return nil
	}
	text, err := settings.YAML("terraloom "+verb+" --config "+path, config, origins)
	if err != nil {
		return err
	}
	return data.WriteFile(path, text)
}

// WriteSettings ends a banner: every setting with where it came from, then the notices.
func WriteSettings(b *strings.Builder, config any, origins settings.Origins, notices []string) error {
	entries, err := settings.Entries(config, origins)
	if err != nil {
		return err
	}
	for _, e := range entries {
		fmt.Fprintf(b, "  %-28s %-24s %s\n", e.Key, e.Value, e.Origin)
	}
	for _, n := range notices {
		fmt.Fprintf(b, "notice: %s\n", n)
	}
	return nil
}
