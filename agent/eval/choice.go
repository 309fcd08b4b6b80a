package eval

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// ChoiceTask is one question of CHOICE.
type ChoiceTask struct {
	ID   string
	Type string // task type, by its name in RSure-Agent Table E.1
}

// The task types of CHOICE-420 (RSure-Agent §5.1 and Table E.1): CHOICE without
// visual grounding and referring expression segmentation, whose answers are no
// letters.
var (
	PerceptionTypes = []string{"Image Caption", "Image Modality", "Image Quality", "Map Recognition", "Scene Classification",
		"Attribute Recognition", "Hallucination Detection", "Landmark Recognition", "Object Counting", "Object Localization", "Object Presence",
		"Attribute Comparison", "Change Detection", "Spatial Relationship"}
	ReasoningTypes = []string{"Environmental Assessment", "Resource Assessment", "Physical Property", "Time Property",
		"Disaster Discrimination", "Geospatial Determination", "Situation Inference"}
)

// choicePerType is the number of questions of each type.
const choicePerType = 20

// ErrChoice is returned where a task type has too few questions.
var ErrChoice = errors.New("not enough CHOICE tasks")

// Choice420 draws 20 questions of each of the 21 types, perception first: 280
// and 140. The draw depends on the seed and the ids alone, not on their order.
func Choice420(tasks []ChoiceTask, seed uint64) ([]ChoiceTask, error) {
	byType := map[string][]ChoiceTask{}
	for _, t := range tasks {
		byType[t.Type] = append(byType[t.Type], t)
	}
	var out []ChoiceTask
	var short []error
	for i, name := range slices.Concat(PerceptionTypes, ReasoningTypes) {
		group := byType[name]
		slices.SortFunc(group, func(a, b ChoiceTask) int {
			if a.ID < b.ID {
				return -1
			}
			return int(indicator(a.ID > b.ID))
		})
		group = slices.Compact(group)
		if len(group) < choicePerType {
			short = append(short, fmt.Errorf("%w: %s has %d of %d", ErrChoice, name, len(group), choicePerType))
			continue
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		rng.Shuffle(len(group), func(a, b int) { group[a], group[b] = group[b], group[a] })
		out = append(out, group[:choicePerType]...)
	}
	if err := errors.Join(short...); err != nil {
		return nil, err
	}
	return out, nil
}
