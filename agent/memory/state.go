// Package memory is the workflow-centred memory of Earth-Agent-Pro (§IV-C,
// Eq. 6): S = (W, M), the workflow W = (V, R) of nodes and revision archive, and
// the evidence M of verified calls. A journal on disk keeps every change, so
// that a killed run goes on where it was.
//
// The state changes by Init, Accept, Fail, Repair (Eq. 5, 8 and 9) and Stop
// only. What was tried and not accepted never enters it.
package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// Status of a node.
type Status string

// The states of a node.
const (
	Pending  Status = "pending"
	Accepted Status = "accepted"
	Failed   Status = "failed"
)

// Node is one operation of the workflow.
type Node struct {
	Index     int              `json:"index"` // from 1
	Planned   string           `json:"planned"`
	Invoked   string           `json:"invoked"` // "" until accepted; another tool than Planned where it was replaced
	Status    Status           `json:"status"`
	Arguments strictjson.Value `json:"arguments"` // null until accepted
	Result    string           `json:"result"`    // summary of the observation
	Diagnosis string           `json:"diagnosis"` // why it failed
	Revision  int              `json:"revision"`  // 0 for the first plan, then that of the repair that put it here
}

// Revision is one entry of the archive R: what a repair took out and put in.
type Revision struct {
	At        int      `json:"at"` // index of the first node that changed
	Old       []Node   `json:"old"`
	New       []string `json:"new"`
	Diagnosis string   `json:"diagnosis"`
	Evidence  int      `json:"evidence"` // records in M at the time
}

// Record is one piece of evidence e = (tool, arguments, observation,
// provenance): a call that was verified. Support is the evidence of the
// observation protocol: src, mid and val.
type Record struct {
	Seq         int              `json:"seq"` // from 1, in the order of acceptance
	Node        int              `json:"node"`
	Revision    int              `json:"revision"`
	Tool        string           `json:"tool"`
	Arguments   strictjson.Value `json:"arguments"`
	Observation strictjson.Value `json:"observation"`
	Provenance  Provenance       `json:"provenance"`
	Support     strictjson.Value `json:"support"`
}

// Provenance tells where a record comes from and what it made.
type Provenance struct {
	Files   []File   `json:"files"`
	Sources []Source `json:"sources"`
}

// File is an artefact with what later nodes need to find it by.
type File struct {
	Path      string    `json:"path"`
	SHA256    string    `json:"sha256"`
	Variables []string  `json:"variables"`
	Time      string    `json:"time"` // "" where unknown
	Region    []float64 `json:"region"`
	CRS       string    `json:"crs"`
	Bands     []string  `json:"bands"`
	Batch     int       `json:"batch"` // position among the files of its call, from 1
	Of        int       `json:"of"`    // files of its call
}

// Source says where one argument value was found.
type Source struct {
	Argument string `json:"argument"` // JSON pointer
	From     string `json:"from"`     // "question", "inputs", "guidance", "workspace" or "record N"
	Change   string `json:"change"`   // how it differs: "" for not at all, "rounded", "scaled", …
}

// State is S = (W, M).
type State struct {
	Nodes    []Node     `json:"nodes"`    // V
	Archive  []Revision `json:"archive"`  // R
	Evidence []Record   `json:"evidence"` // M
}

// Init is the state of a plan: every node pending, no arguments, R and M empty.
func Init(plan []string) *State {
	s := &State{Nodes: []Node{}, Archive: []Revision{}, Evidence: []Record{}}
	s.install(plan, 1, 0)
	return s
}

func (s *State) install(plan []string, from, revision int) {
	for i, tool := range plan {
		s.Nodes = append(s.Nodes, Node{Index: from + i, Planned: tool, Status: Pending, Arguments: strictjson.NullValue(), Revision: revision})
	}
}

// Next is the index of the first node that is not accepted, 0 if all are.
func (s *State) Next() int {
	for _, n := range s.Nodes {
		if n.Status != Accepted {
			return n.Index
		}
	}
	return 0
}

// Node returns node i, from 1.
func (s *State) Node(i int) *Node { return &s.Nodes[i-1] }

// Plan are the planned tools from node i on.
func (s *State) Plan(i int) []string {
	var names []string
	for _, n := range s.Nodes[i-1:] {
		names = append(names, n.Planned)
	}
	return names
}

// Accept commits a verified call to node i and to M together (Eq. 8). The
// record's Seq, Node and Revision are set here.
func (s *State) Accept(i int, r Record, summary string) error {
	if i < 1 || i > len(s.Nodes) || s.Nodes[i-1].Status == Accepted {
		return fmt.Errorf("node %d cannot be accepted: %d nodes, or it was accepted before", i, len(s.Nodes))
	}
	n := s.Node(i)
	r.Seq, r.Node, r.Revision = len(s.Evidence)+1, i, n.Revision
	n.Invoked, n.Status, n.Arguments, n.Result, n.Diagnosis = r.Tool, Accepted, r.Arguments, summary, ""
	s.Evidence = append(s.Evidence, r)
	return nil
}

// Note adds a verified call to M that belongs to no node: a loop without plan has
// evidence and no workflow.
func (s *State) Note(r Record) {
	r.Seq, r.Node, r.Revision = len(s.Evidence)+1, 0, 0
	s.Evidence = append(s.Evidence, r)
}

// Fail stores the final diagnosis on node i.
func (s *State) Fail(i int, diagnosis string) error {
	if i < 1 || i > len(s.Nodes) {
		return fmt.Errorf("node %d of %d cannot fail", i, len(s.Nodes))
	}
	n := s.Node(i)
	n.Status, n.Diagnosis = Failed, diagnosis
	return nil
}

// Repair keeps the nodes before i, puts a new suffix behind them, and archives
// the old suffix with the diagnosis (Eq. 9). M stays as it is.
func (s *State) Repair(i int, suffix []string, diagnosis string) error {
	if i < 1 || i > len(s.Nodes) || len(suffix) == 0 {
		return fmt.Errorf("no suffix of %d tools at node %d of %d", len(suffix), i, len(s.Nodes))
	}
	s.Archive = append(s.Archive, Revision{At: i, Old: slices.Clone(s.Nodes[i-1:]), New: slices.Clone(suffix), Diagnosis: diagnosis, Evidence: len(s.Evidence)})
	s.Nodes = slices.Clone(s.Nodes[:i-1])
	s.install(suffix, i, len(s.Archive))
	return nil
}

// Stop ends the workflow after node i: the nodes behind it, none of them begun,
// go to the archive, because the evidence already answers the question.
func (s *State) Stop(i int, why string) error {
	if i < 1 || i >= len(s.Nodes) {
		return fmt.Errorf("no node behind %d of %d to leave out", i, len(s.Nodes))
	}
	s.Archive = append(s.Archive, Revision{At: i + 1, Old: slices.Clone(s.Nodes[i:]), New: []string{}, Diagnosis: why, Evidence: len(s.Evidence)})
	s.Nodes = slices.Clone(s.Nodes[:i])
	return nil
}

// Hash is the SHA-256 of the whole state, in hex.
func (s *State) Hash() string { return hashOf(s) }

// EvidenceHash is the SHA-256 of M alone.
func (s *State) EvidenceHash() string { return hashOf(s.Evidence) }

func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("memory: " + err.Error()) // every field has a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Steps are the records of M as prompts show earlier steps.
func (s *State) Steps() []data.Step {
	steps := make([]data.Step, len(s.Evidence))
	for i, r := range s.Evidence {
		steps[i] = data.Step{Tool: r.Tool, Arguments: r.Arguments, Observation: r.Observation}
	}
	return steps
}
