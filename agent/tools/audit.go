package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"terraloom/agent/tools/workspace"
	"terraloom/data"
	"terraloom/data/catalogue"
	"terraloom/data/strictjson"
)

// AuditClass says how a recorded call fits the kit.
type AuditClass string

// The classes of calls.
const (
	Native     AuditClass = "native"     // as it stands: own name, own arguments
	ByAlias    AuditClass = "by alias"   // another name or key, a list for a path, a number as text, …
	Impossible AuditClass = "impossible" // no data could make it run
)

// AuditedCall is one call and how it fits.
type AuditedCall struct {
	Seed   string // id of the trajectory
	Step   int    // from 0
	Tool   string // as it was called
	Class  AuditClass
	Kinds  []string // of the leniencies used, or of the reason
	Reason string   // in full; of an alias what was renamed or converted
}

// Auditing is the outcome for all calls of a set of trajectories.
type Auditing struct {
	Calls []AuditedCall
}

// Audit tells of every call of the trajectories whether the kit can run it, and
// if not, why. Files are taken to be there: it looks at names, arguments, paths and
// numbers of paths, and runs the tools that need no files.
func Audit(seeds []*data.Trajectory) (Auditing, error) {
	r, err := New(Correct)
	if err != nil {
		return Auditing{}, err
	}
	var a Auditing
	for _, seed := range seeds {
		for i, step := range seed.Steps {
			c := r.audit(step.Tool, step.Arguments)
			c.Seed, c.Step, c.Tool = seed.ID, i, step.Tool
			a.Calls = append(a.Calls, c)
		}
	}
	return a, nil
}

func (r *Registry) audit(name string, args strictjson.Value) AuditedCall {
	impossible := func(kind, reason string) AuditedCall {
		return AuditedCall{Class: Impossible, Kinds: []string{kind}, Reason: reason}
	}
	found, err := r.catalogue.Resolve(name)
	if err != nil {
		return impossible("unknown tool", err.Error())
	}
	bound, err := found.Tool.Bind(args)
	if err != nil {
		var faults *catalogue.ArgumentsError
		if errors.As(err, &faults) {
			return impossible(string(faults.Problems[0].Kind)+" argument", err.Error())
		}
		return impossible("arguments", err.Error())
	}
	if err := checkPaths(found.Tool, bound.Args); err != nil {
		return impossible("path", err.Error())
	}
	if found.Tool.Pure {
		if _, err := r.Call(name, args); err != nil {
			return impossible("undefined", err.Error())
		}
	} else if err := checkLists(found.Tool, bound.Args, Correct); err != nil {
		reason := err.Error()
		if checkLists(found.Tool, bound.Args, EarthAgent) == nil {
			reason += " (compat " + string(EarthAgent) + " runs it, up to the end of the shortest list)"
		}
		return impossible("lists of unequal length", reason)
	}
	c := AuditedCall{Class: Native}
	var reasons []string
	if name != found.Tool.Name {
		c.Kinds, reasons = append(c.Kinds, "tool name"), append(reasons, name+" stands for "+found.Tool.Name)
	}
	for _, n := range bound.Notes {
		if !slices.Contains(c.Kinds, string(n.Kind)) {
			c.Kinds = append(c.Kinds, string(n.Kind))
		}
		reasons = append(reasons, n.Key+": "+n.Msg)
	}
	if len(reasons) > 0 {
		c.Class, c.Reason = ByAlias, strings.Join(reasons, "; ")
	}
	return c
}

// checkPaths refuses calls with a path that can be in no workspace.
func checkPaths(tool *catalogue.Tool, args strictjson.Value) error {
	var failed error
	for _, p := range tool.Params {
		check := workspace.CheckInput
		switch p.IO {
		case "":
			continue
		case "out":
			check = workspace.CheckOutput
		}
		args.Get(p.Name).Leaves("", func(pointer string, v strictjson.Value) {
			if failed == nil && v.Kind() == strictjson.String {
				if err := check(v.Text()); err != nil {
					failed = fmt.Errorf("/%s%s: %w", p.Name, pointer, err)
				}
			}
		})
	}
	return failed
}

// checkLists runs a tool's own check of the numbers of its paths.
func checkLists(tool *catalogue.Tool, args strictjson.Value, compat Compat) error {
	c := &Call{Context: context.Background(), Args: args, Compat: compat, tool: tool}
	for _, products := range rasterProducts {
		if p := products[tool.Name]; p != nil {
			_, _, err := p.scenes(c)
			return withTool(err, tool.Name)
		}
	}
	switch tool.Name {
	case "calculate_mean_lst_by_ndvi":
		_, err := equalLists(c, "red_paths", "nir_paths", "lst_paths")
		return withTool(err, tool.Name)
	case "apply_scale_offset", "extract_brightness_temperature":
		_, err := equalLists(c, "file_list", "output_path")
		return withTool(err, tool.Name)
	}
	return nil
}

func withTool(err error, name string) error {
	var e *Error
	if errors.As(err, &e) {
		e.Tool = name
	}
	return err
}

// Count is the number of calls of a class.
func (a *Auditing) Count(class AuditClass) int {
	n := 0
	for _, c := range a.Calls {
		n += boolInt(c.Class == class)
	}
	return n
}

// String is the summary for people: calls by class and kind, then every call that
// is impossible, with its reason.
func (a Auditing) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls\n", len(a.Calls))
	for _, class := range []AuditClass{Native, ByAlias, Impossible} {
		kinds := map[string]int{}
		for _, c := range a.Calls {
			if c.Class == class {
				for _, k := range c.Kinds {
					kinds[k]++
				}
			}
		}
		fmt.Fprintf(&b, "%6d %s", a.Count(class), class)
		names := slices.SortedFunc(maps.Keys(kinds), func(x, y string) int {
			return cmp.Or(cmp.Compare(kinds[y], kinds[x]), cmp.Compare(x, y))
		})
		for i, k := range names {
			fmt.Fprintf(&b, "%s%s %d", map[bool]string{true: ": ", false: ", "}[i == 0], k, kinds[k])
		}
		b.WriteByte('\n')
	}
	for _, c := range a.Calls {
		if c.Class == Impossible {
			fmt.Fprintf(&b, "%s step %d: %s\n", c.Seed, c.Step, c.Reason)
		}
	}
	return b.String()
}

// Value is the outcome as JSON.
func (a *Auditing) Value() strictjson.Value {
	calls := make([]strictjson.Value, len(a.Calls))
	for i, c := range a.Calls {
		calls[i] = object(member("seed", strictjson.Text(c.Seed)), member("step", strictjson.Int(c.Step)), member("tool", strictjson.Text(c.Tool)),
			member("class", strictjson.Text(string(c.Class))), member("kinds", texts(c.Kinds)), member("reason", strictjson.Text(c.Reason)))
	}
	return object(member("total", strictjson.Int(len(a.Calls))), member("native", strictjson.Int(a.Count(Native))),
		member("by_alias", strictjson.Int(a.Count(ByAlias))), member("impossible", strictjson.Int(a.Count(Impossible))),
		member("calls", strictjson.List(calls...)))
}
