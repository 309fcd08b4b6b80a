package data

// TrainingTexts are the contents of all prompts and completions of the training splits of dataset folders, in the order of
// the datasets and of their rows: what a tokenizer learns from.
func TrainingTexts(dirs []string) ([]string, error) {
	var texts []string
	add := func(messages []Message) {
		for _, m := range messages {
			texts = append(texts, m.Content)
		}
	}
	for _, dir := range dirs {
		ds, err := OpenDataset(dir)
		if err != nil {
			return nil, err
		}
		for row, err := range ds.Planner(Splits[0]) {
			if err != nil {
				return nil, err
			}
			add(row.Prompt)
			add(row.Completion)
		}
		for row, err := range ds.Executor(Splits[0]) {
			if err != nil {
				return nil, err
			}
			add(row.Prompt)
			add(row.Completion)
		}
	}
	return texts, nil
}
