package data

import (
	"fmt"
	"strings"
)

// Irregularity kinds of imported files. Unless the comment says otherwise the
// value was kept as it is.
const (
	MissingObservation = "missing_observation"  // a call without a tool turn after it; the observation is absent
	OrphanObservation  = "orphan_observation"   // a tool turn without a call; moved to provenance
	MisnamedToolTurn   = "misnamed_tool_turn"   // a tool turn naming another tool than its call; the call's name counts
	CallType           = "call_type"            // a call whose type is not "function"; read as one
	DeclaredType       = "declared_type"        // an observation whose declared type differs from its JSON type; the value counts
	MissingAnswer      = "missing_final_answer" // no final assistant turn; the gold answer counts
	OtherAnswer        = "other_final_answer"   // the final assistant turn is not the gold answer; the gold answer counts
	EvaluationOrder    = "evaluation_order"     // autonomous planning listed before instruction following
	IntegerChoices     = "integer_choices"      // choices are numbers; their spelling became text
	NoChoices          = "no_choices"           // an open question; the answer is a number or a text
	ListedAnswer       = "listed_answer"        // the gold answer is a list of one; unwrapped
	OuterBlanks        = "outer_blanks"         // blanks around a text; cut from query, data path and answer
	TextLiteral        = "literal_in_text"      // an observation text that holds a Python or JSON literal
	NumberInText       = "number_in_text"       // an argument or observation text that is a number or a percentage
	BooleanInText      = "boolean_in_text"      // an argument text "true" or "false"
	NullInList         = "null_in_list"         // an argument list with null among its values
	AbsolutePath       = "absolute_path"        // a path with a drive letter
	OtherEntryPath     = "other_entry_path"     // a path into another entry's folder
	FileAsDataPath     = "file_as_data_path"    // the data path is a file
	UnequalLists       = "unequal_lists"        // lists of paths of different length in one call
	RepeatedItems      = "repeated_items"       // an argument list of texts with an item twice
	ResultCount        = "result_count"         // a list observation longer or shorter than the list of paths given
	DataSentence       = "data_sentence"        // the user turn ends with the sentence naming the data folder; cut for the regime "user"
	OtherSubject       = "other_subject"        // the user turn names years that neither evaluation text nor file names; not used as query
	RefusedRecord      = "refused_record"       // a record that is no trajectory; left out
	ByteOrderMark      = "byte_order_mark"      // the file begins with one; skipped
	CRLF               = "crlf"                 // lines end in CR LF
	TestSplit          = "test_split"           // a record of the source's test split; marked in provenance
)

// Irregularity is one oddity of an imported record.
type Irregularity struct {
	Kind   string `json:"kind"`
	SeedID string `json:"seed_id"` // "" where it concerns the whole file
	Step   int    `json:"step"`    // 0-based; -1 where it concerns the whole record
	Detail string `json:"detail,omitempty"`
}

// ImportReport lists what an import found.
type ImportReport struct {
	Formats        []string       `json:"formats"` // of each file
	Trajectories   int            `json:"trajectories"`
	Steps          int            `json:"steps"`
	Tools          int            `json:"tools"` // distinct names
	Counts         []Count        `json:"counts"`
	Irregularities []Irregularity `json:"irregularities"`
}

func (r *ImportReport) add(kind, seed string, step int, format string, args ...any) {
	r.Irregularities = append(r.Irregularities, Irregularity{kind, seed, step, fmt.Sprintf(format, args...)})
}

// finish counts what was found.
func (r *ImportReport) finish(trajectories []*Trajectory) {
	tools := map[string]bool{}
	r.Trajectories = len(trajectories)
	for _, t := range trajectories {
		r.Steps += len(t.Steps)
		for i := range t.Steps {
			tools[t.Steps[i].Tool] = true
		}
	}
	r.Tools = len(tools)
	for _, i := range r.Irregularities {
		r.Counts = addCount(r.Counts, Count{i.Kind, 1})
	}
}

// Of returns the irregularities of one kind.
func (r *ImportReport) Of(kind string) []Irregularity {
	var list []Irregularity
	for _, i := range r.Irregularities {
		if i.Kind == kind {
			list = append(list, i)
		}
	}
	return list
}

// String is the report for people: totals, then one line per kind with the
// first few places.
func (r *ImportReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d trajectories, %d calls, %d tools\n", r.Trajectories, r.Steps, r.Tools)
	for _, c := range r.Counts {
		list := r.Of(c.Name)
		fmt.Fprintf(&b, "%6d  %-20s", c.Count, c.Name)
		for n, i := range list {
			if n == 5 {
				b.WriteString(" …")
				break
			}
			if i.SeedID != "" {
				fmt.Fprintf(&b, " %s", i.SeedID)
			}
			if i.Step >= 0 {
				fmt.Fprintf(&b, "[%d]", i.Step)
			}
		}
		if list[0].Detail != "" {
			fmt.Fprintf(&b, " (first: %s)", clipText(list[0].Detail, 160))
		}
		b.WriteString("\n")
	}
	return b.String()
}
