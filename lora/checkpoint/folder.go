package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"terraloom/data/strictjson"
)

const (
	configFile  = "config.json"
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// tokenizerNames are the files from which the tokenizers of the supported families are built.
var tokenizerNames = []string{
	"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json",
	"special_tokens_map.json", "tokenizer.model", "chat_template.jinja",
}

// textPrefixes are what wrapper classes put before the names of the text tensors.
var textPrefixes = []string{"model.language_model.", "model.", ""}

func openFolder(dir string) (*Model, error) {
	path := filepath.Join(dir, configFile)
	object, err := readJSON(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) && exists(filepath.Join(dir, "adapter_config.json")) {
			return nil, fmt.Errorf("%s is an adapter, not a base model: %w", dir, err)
		}
		return nil, err
	}
	config, err := parseConfig(object)
	if err != nil {
		return nil, err
	}
	m := &Model{Config: config, Skipped: map[string]int{}, TokenizerFiles: map[string]string{}, tensors: map[string]located{}}
	for _, name := range tokenizerNames {
		if p := filepath.Join(dir, name); exists(p) {
			m.TokenizerFiles[name] = p
		}
	}
	if m.ChatTemplate, err = folderTemplate(m.TokenizerFiles); err != nil {
		return nil, err
	}
	if err := m.generationEOS(filepath.Join(dir, "generation_config.json")); err != nil {
		return nil, err
	}

	shards, listed, err := findShards(dir)
	if err != nil {
		return nil, err
	}
	m.files = []string{path}
	var open []*Safetensors
	m.close = func() error {
		var errs []error
		for _, s := range open {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	all := map[string]Tensor{}
	for _, shard := range shards {
		s, err := OpenSafetensors(shard)
		if err != nil {
			m.close()
			return nil, err
		}
		open = append(open, s)
		m.files = append(m.files, shard)
		for _, name := range s.Names() {
			if _, twice := all[name]; twice {
				m.close()
				return nil, fmt.Errorf("%s: tensor %q is in another shard too: %w", shard, name, ErrFormat)
			}
			all[name], _ = s.Tensor(name)
			if file, ok := listed[name]; ok && file == filepath.Base(shard) {
				delete(listed, name)
			}
		}
	}
	if len(listed) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(listed)))
		m.close()
		return nil, fmt.Errorf("%s: %d tensors are not where the index says, e.g. %q in %s: %w",
			filepath.Join(dir, indexFile), len(listed), name, listed[name], ErrTensors)
	}
	m.locate(all)
	return m, nil
}

// locate gives the tensors their canonical names and leaves out, by name, the vision tower and the multi-token
// prediction layers.
func (m *Model) locate(all map[string]Tensor) {
	m.Prefix = "model." // if there is no embedding, for the message
	for _, prefix := range textPrefixes {
		if _, ok := all[prefix+embedName]; ok {
			m.Prefix = prefix
			break
		}
	}
	for name, t := range all {
		inner := strings.TrimPrefix(name, "model.")
		kind, _, _ := strings.Cut(inner, ".")
		switch {
		case kind == "visual" || kind == "mtp":
			m.Skipped[kind]++
			continue
		case strings.HasSuffix(name, ".rotary_emb.inv_freq"): // a buffer that old versions of transformers saved
			m.Skipped["rotary_emb.inv_freq"]++
			continue
		}
		canonical, ok := strings.CutPrefix(name, m.Prefix)
		if name == headName {
			canonical, ok = name, true
		}
		if _, twice := m.tensors[canonical]; twice || !ok {
			m.strays = append(m.strays, name)
			continue
		}
		m.tensors[canonical] = located{Tensor: t}
	}
}

// findShards returns the weight files in order, and for a sharded folder the index (tensor → file).
func findShards(dir string) (paths []string, listed map[string]string, err error) {
	single := filepath.Join(dir, weightsFile)
	if exists(single) {
		return []string{single}, nil, nil
	}
	path := filepath.Join(dir, indexFile)
	index, err := readJSON(path)
	if errors.Is(err, os.ErrNotExist) {
		hint := ""
		if exists(filepath.Join(dir, "pytorch_model.bin")) || exists(filepath.Join(dir, "pytorch_model.bin.index.json")) {
			hint = "; pickled pytorch_model.bin weights are not read: convert them to safetensors"
		}
		return nil, nil, fmt.Errorf("%s: neither %s nor %s is there%s: %w", dir, weightsFile, indexFile, hint, os.ErrNotExist)
	}
	if err != nil {
		return nil, nil, err
	}
	weightMap := index.object("weight_map")
	if weightMap == nil || weightMap.value.Len() == 0 {
		index.fail(ErrFormat, "weight_map", "missing or empty")
		return nil, nil, index.err()
	}
	listed = map[string]string{}
	files := map[string]bool{}
	for i := range weightMap.value.Len() {
		name := weightMap.value.Key(i)
		file := weightMap.text(name)
		if file != filepath.Base(file) || strings.ContainsAny(file, `/\`) || !strings.HasSuffix(file, ".safetensors") {
			index.fail(ErrFormat, "weight_map", "tensor %q is said to be in %q, expected a .safetensors file of this folder", name, file)
			return nil, nil, index.err()
		}
		listed[name] = file
		files[file] = true
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		paths = append(paths, filepath.Join(dir, file))
	}
	return paths, listed, nil
}

// generationEOS replaces the end-of-text ids by those of generation_config.json, which is where chat models list all of
// them and what transformers generates with.
func (m *Model) generationEOS(path string) error {
	p, err := readJSON(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ids := p.ids("eos_token_id", m.Config.VocabSize)
	if err := p.err(); err != nil {
		return err
	}
	if ids != nil && !slices.Equal(ids, m.Config.EOS) {
		m.Notes = append(m.Notes, fmt.Sprintf("end-of-text ids %v from generation_config.json (config.json has %v)", ids, m.Config.EOS))
		m.Config.EOS = ids
	}
	return nil
}

// folderTemplate is the chat template of a folder: chat_template.jinja, else the entry of tokenizer_config.json (a
// string, or a list of named ones of which "default" counts).
func folderTemplate(files map[string]string) (string, error) {
	if path, ok := files["chat_template.jinja"]; ok {
		raw, err := readFile(path)
		return string(raw), err
	}
	path, ok := files["tokenizer_config.json"]
	if !ok {
		return "", nil
	}
	p, err := readJSON(path)
	if err != nil {
		return "", err
	}
	template, ok := p.get("chat_template")
	if !ok {
		return "", nil
	}
	if template.Kind() == strictjson.String {
		return template.Text(), nil
	}
	for i := range template.Len() {
		named := template.Index(i)
		if text := named.Get("template"); named.Get("name").Text() == "default" && text.Kind() == strictjson.String {
			return text.Text(), nil
		}
	}
	return "", fmt.Errorf("%s: chat_template is neither a string nor a list with a template named \"default\": %w", path, ErrFormat)
}
