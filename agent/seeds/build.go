package seeds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"terraloom/agent/archive"
	"terraloom/agent/environment"
	"terraloom/agent/tools"
	"terraloom/data"
	"terraloom/data/strictjson"
	"terraloom/slots"
)

// Source marks trajectories that were written for this project.
const Source = "own"

// ID is the id of the seed of a task core.
func ID(core int) string { return fmt.Sprintf("seed-%03d", core) }

// Build carries out one seed and returns its trajectory in the open-world regime.
// Its provenance holds the questions and inputs of the other regimes, the
// answer's unit and tolerance, the coverage that the answer requires and digests
// of the files that the steps made. A step without an estimate is an error.
func Build(ctx context.Context, env *environment.Environment, f *Family, s Seed) (*data.Trajectory, error) {
	t, err := build(ctx, env, f, s)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: family %s, core %d: %w", ErrSpec, f.file, f.Name, s.Core(), err)
	}
	return t, nil
}

func build(ctx context.Context, env *environment.Environment, f *Family, s Seed) (t *data.Trajectory, err error) {
	sc, err := newScope(f, s)
	if err != nil {
		return nil, err
	}
	session, err := env.Session(ctx, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	t = &data.Trajectory{ID: ID(s.Core()), SeedID: ID(s.Core()), Source: Source, Domain: f.Domain, Regime: "ow", Skill: f.Skill}
	var artefacts []strictjson.Value
	for i, st := range f.Steps {
		step, made, err := carryOut(session, sc, st)
		if err != nil {
			return nil, fmt.Errorf("step %d (%s): %w", i+1, st.Tool, err)
		}
		t.Steps = append(t.Steps, step)
		if len(made) > 0 {
			artefacts = append(artefacts, digest(i, made))
		}
	}
	if t.Answer, err = f.Answer.of(t, f, sc); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	questions, err := f.questions(s, sc)
	if err != nil {
		return nil, err
	}
	t.Query = questions["ow"]
	inputs, err := inputsOf(f, t)
	if err != nil {
		return nil, err
	}
	t.Inputs = inputs.required
	if k := sc.unused(f, s); k != "" {
		return nil, fmt.Errorf("parameter %q is used nowhere", k)
	}
	members := []strictjson.Member{
		{Key: "core", Value: strictjson.Int(s.Core())}, {Key: "family", Value: strictjson.Text(f.Name)},
		{Key: "objective", Value: strictjson.Text(f.Objective)},
		{Key: "question_if", Value: strictjson.Text(questions["if"])}, {Key: "question_ap", Value: strictjson.Text(questions["ap"])},
		{Key: "prepared", Value: inputs.prepared},
	}
	if f.Answer.Tolerance > 0 { // numbers
		members = append(members, strictjson.Member{Key: "unit", Value: strictjson.Text(f.Answer.Unit)}, strictjson.Member{Key: "tolerance", Value: strictjson.Float(f.Answer.Tolerance)})
	}
	members = append(members, strictjson.Member{Key: "coverage", Value: inputs.coverage}, strictjson.Member{Key: "artefacts", Value: strictjson.List(artefacts...)},
		strictjson.Member{Key: "world", Value: strictjson.Int(environment.WorldSeed)})
	t.Provenance = strictjson.Obj(members...)
	for i, uses := range slots.Analyze(t).Uses {
		t.Steps[i].Uses = uses
	}
	return t, nil
}

// carryOut fills in a step's arguments and calls the tool.
func carryOut(session *environment.Session, sc *scope, st Step) (data.Step, []tools.Artefact, error) {
	members := make([]strictjson.Member, len(st.Args))
	for k, a := range st.Args {
		v, err := sc.value(a.Node)
		if err != nil {
			return data.Step{}, nil, fmt.Errorf("%s: %w", a.Key, err)
		}
		members[k] = strictjson.Member{Key: a.Key, Value: v}
	}
	step := data.Step{Tool: st.Tool, Arguments: strictjson.Obj(members...)}
	if st.Tool == "download_product" && step.Arguments.Get("interval").Kind() != strictjson.String {
		return step, nil, errors.New("interval is required: file names must follow from the request")
	}
	res, err := session.Invoke(st.Tool, step.Arguments)
	if err != nil {
		return step, nil, err
	}
	if res.Evidence.Status != tools.OK {
		return step, nil, fmt.Errorf("%s: %s", res.Evidence.Status, res.Text())
	}
	if missing(res.Value) {
		return step, nil, fmt.Errorf("a part of the observation is missing: %s (%s)", res.Value.JSON(), strings.Join(res.Evidence.Warnings, "; "))
	}
	step.Observation = res.Value
	if st.ID != "" {
		sc.values[st.ID] = fromJSON(res.Value)
	}
	return step, res.Artefacts, nil
}

// missing reports whether an observation has a null anywhere.
func missing(v strictjson.Value) bool {
	found := v.Kind() == strictjson.Null
	v.Leaves("", func(_ string, leaf strictjson.Value) { found = found || leaf.Kind() == strictjson.Null })
	return found
}

// digest stands for the files that a step made.
func digest(step int, made []tools.Artefact) strictjson.Value {
	h := sha256.New()
	for _, a := range made {
		fmt.Fprintln(h, a.Path, a.SHA256)
	}
	return strictjson.Obj(strictjson.Member{Key: "step", Value: strictjson.Int(step)}, strictjson.Member{Key: "files", Value: strictjson.Int(len(made))},
		strictjson.Member{Key: "sha256", Value: strictjson.Text(hex.EncodeToString(h.Sum(nil)))})
}

// questions are the question in each regime. The one that gives the steps is the
// one that names the data, and the steps as instructions.
func (f *Family) questions(s Seed, sc *scope) (map[string]string, error) {
	at := slices.IndexFunc(f.Seeds, func(o Seed) bool { return o.Core() == s.Core() })
	out := map[string]string{}
	for regime, variants := range map[string][]string{"ap": f.AP, "ow": f.OW} {
		text, err := sc.text(variants[at%len(variants)])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", regime, err)
		}
		out[regime] = strings.TrimSpace(text)
	}
	for _, text := range append(slices.Clone(f.AP), f.OW...) { // a parameter may stand in some wordings only
		_, _ = sc.text(text)
	}
	var b strings.Builder
	b.WriteString(out["ap"])
	b.WriteString([]string{" Work in this order:", " Do it step by step:", " Take these steps:"}[s.Core()%3])
	for i, st := range f.Steps {
		do, err := sc.text(st.Do)
		if err != nil {
			return nil, fmt.Errorf("do: %w", err)
		}
		end := ";"
		if i == len(f.Steps)-1 {
			end = "."
		}
		fmt.Fprintf(&b, " (%d) %s with %s%s", i+1, do, st.Tool, end)
	}
	out["if"] = b.String()
	return out, nil
}

// inputs are what a solver has before the first step, and what the answer must rest on.
type inputs struct {
	required strictjson.Value // of an open-world task: area, period, products
	prepared strictjson.Value // of the other regimes: the acquisitions in full
	coverage strictjson.Value
}

func inputsOf(f *Family, t *data.Trajectory) (inputs, error) {
	member := func(key string, v strictjson.Value) strictjson.Member { return strictjson.Member{Key: key, Value: v} }
	var products, acquisitions, coverage []strictjson.Value
	var areas []strictjson.Value
	for _, st := range t.Steps {
		a := st.Arguments
		switch st.Tool {
		case "get_filelist":
			in := strictjson.Obj(member("data_path", a.Get("dir_path")), member("required", strictjson.Text(f.Objective)))
			return inputs{in, in, strictjson.List(strictjson.Obj(member("data_path", a.Get("dir_path")), member("files", strictjson.Int(st.Observation.Len()))))}, nil
		case "download_product":
		default:
			continue
		}
		p, ok := archive.FindProduct(archive.Products(), a.Get("source").Text())
		if !ok || p.ID != a.Get("source").Text() {
			return inputs{}, fmt.Errorf("source %s: give a product's ID", a.Get("source").Text())
		}
		var bands []strictjson.Value
		for i := range a.Get("bands").Len() {
			b, ok := p.Band(a.Get("bands").Index(i).Text())
			if !ok || b.Name != a.Get("bands").Index(i).Text() {
				return inputs{}, fmt.Errorf("%s has no band named %s", p.ID, a.Get("bands").Index(i).Text())
			}
			band := []strictjson.Member{member("name", strictjson.Text(b.Name))}
			if b.Scale != 1 {
				band = append(band, member("scale", strictjson.Float(b.Scale)))
			}
			if b.Offset != 0 {
				band = append(band, member("offset", strictjson.Float(b.Offset)))
			}
			if b.Unit != "" && b.Unit != "1" {
				band = append(band, member("unit", strictjson.Text(b.Unit)))
			}
			bands = append(bands, strictjson.Obj(band...))
		}
		products = appendNew(products, strictjson.Obj(member("source", a.Get("source")), member("bands", strictjson.List(bands...)),
			member("interval", a.Get("interval")), member("scale_m", a.Get("scale_m"))))
		areas = appendNew(areas, strictjson.Obj(member("bbox", a.Get("bbox")), member("period", a.Get("time_range"))))
		acquisitions = append(acquisitions, a)
		coverage = append(coverage, strictjson.Obj(member("source", a.Get("source")), member("bands", a.Get("bands")), member("bbox", a.Get("bbox")),
			member("period", a.Get("time_range")), member("files", strictjson.Int(st.Observation.Len()))))
	}
	if len(products) == 0 {
		return inputs{}, errors.New("the workflow acquires nothing: it needs download_product or get_filelist")
	}
	required := strictjson.Text(f.Objective)
	return inputs{
		required: strictjson.Obj(member("areas", strictjson.List(areas...)), member("products", strictjson.List(products...)), member("required", required)),
		prepared: strictjson.Obj(member("acquisitions", strictjson.List(acquisitions...)), member("products", strictjson.List(products...)), member("required", required)),
		coverage: strictjson.List(coverage...),
	}, nil
}

func appendNew(list []strictjson.Value, v strictjson.Value) []strictjson.Value {
	if slices.ContainsFunc(list, v.Equal) {
		return list
	}
	return append(list, v)
}
