package run

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/data/prompt"
	"terraloom/data/skills"
)

// AGT-1: the Planner yields an ordered tool skeleton without arguments; after
// Init all nodes are pending, M and R are empty.
func TestAGT1PlanIsASkeleton(t *testing.T) {
	s := memory.Init([]string{"get_filelist", "SM3Det", "SAM2", "calculate_area"})
	if len(s.Nodes) != 4 || len(s.Evidence) != 0 || len(s.Archive) != 0 || s.Next() != 1 {
		t.Errorf("%+v", s)
	}
	for _, n := range s.Nodes {
		if n.Status != memory.Pending || n.Arguments.JSON() != "null" || n.Invoked != "" {
			t.Errorf("%+v", n)
		}
	}
}

// AGT-8: a node records planned tool, invoked tool, status, grounded arguments,
// result summary, failure diagnosis and revision.
func TestAGT8NodeFields(t *testing.T) {
	text, err := json.Marshal(memory.Init([]string{"mean"}).Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	v := parse(t, string(text))
	var keys []string
	for i := range v.Len() {
		keys = append(keys, v.Key(i))
	}
	if !slices.Equal(keys, []string{"index", "planned", "invoked", "status", "arguments", "result", "diagnosis", "revision"}) {
		t.Errorf("%v", keys)
	}
}

// AGT-3: the Skill Router selects a skill; a reply that is none falls back to keywords.
func TestAGT3Router(t *testing.T) {
	for reply, want := range map[string]string{"earth-product-statistics": "earth-product-statistics", `"earth-spectral-index".`: "earth-spectral-index", "foo": "earth-rgb-perception"} {
		s := smooth(t)
		s.agent.Config.Routing, s.agent.Config.Mode = ByModel, PlanningOnly
		s.task.Question = "How large is the tennis court in the aerial image (GSD 0.13 m/px), by detection and segmentation of objects?"
		s.agent.Model = llm.NewScript(llm.Line{Role: "router", Reply: reply}, planner("mean"))
		if o := s.run(); o.Skill != want {
			t.Errorf("%q gives %s, want %s", reply, o.Skill, want)
		}
	}
}

// AGT-5: the Tool Router retrieves candidates within the tools of the skill.
func TestAGT5CandidatesStayInTheSkill(t *testing.T) {
	for _, skill := range skills.Default() {
		s := smooth(t)
		s.agent.Config.Mode, s.agent.Config.Routing = PlanningOnly, ByModel
		s.agent.Model = llm.NewScript(llm.Line{Role: "router", Reply: skill.Name}, planner("mean"))
		s.run()
		got := slices.Clone(s.events(memory.Routed)[0].Tools)
		want := slices.Clone(skill.Tools)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || len(got) < 20 || len(got) > 30 {
			t.Errorf("%s: %v", skill.Name, got)
		}
	}
}

// AGT-6: the Planner uses a four-role sequential debate; each role revises the
// candidate using the preceding discussion, and the last reply is the plan.
func TestAGT6Debate(t *testing.T) {
	s := newScene(t, append(answers("x"), planner("get_filelist", "mean"), planner("get_filelist", "kurtosis"), planner("get_filelist", "calc_batch_image_sum"), planner(trendPlan...))...)
	s.agent.Config.Planning, s.agent.Config.Mode = Debate, PlanningOnly
	o := s.run().must(t, Planned)
	if !slices.Equal(o.Plan, trendPlan) {
		t.Errorf("plan %v", o.Plan)
	}
	asked := s.asked("planner")
	if len(asked) != 4 {
		t.Fatalf("%d prompts", len(asked))
	}
	said := []string{`{"tool_sequence":["get_filelist","mean"]}`, `{"tool_sequence":["get_filelist","kurtosis"]}`, `{"tool_sequence":["get_filelist","calc_batch_image_sum"]}`}
	for k, p := range asked {
		for j, reply := range said {
			if strings.Contains(p, reply) != (j < k) {
				t.Errorf("prompt %d: reply %d in it: %v", k+1, j+1, !(j < k))
			}
		}
	}
	for k, role := range []string{"tool schema specialist", "benchmark minimalist", "skeptical moderator"} {
		if !strings.Contains(asked[k+1], "You are the "+role) {
			t.Errorf("prompt %d is not that of the %s", k+2, role)
		}
	}
	// Role 1 gets the prompt of training unchanged.
	skill := skills.Route(skills.Default(), s.task.Question, nil)
	task := prompt.Task{Query: s.task.Question, Inputs: s.task.Inputs, Guidance: prompt.Guidance{Skill: skill.Name, Text: skill.Guidance}}
	want := prompt.Planner(prompt.Compact, task, candidates(s.agentCatalogue(), skill))
	first := s.script.Asked("planner")[0].Messages
	if len(first) != 2 || first[0].Content != want[0].Content || first[1].Content != want[1].Content {
		t.Error("role 1 does not get the prompt of training")
	}
}

// AGT-7: a catalog validator checks tool existence and active-skill membership;
// it returns errors with the candidate for another attempt.
func TestAGT7Validator(t *testing.T) {
	s := newScene(t, append(answers("x"), planner("get_filelist", "magic_tool"), planner("get_filelist", "SAM2"), planner("compute_linear_trend"))...)
	s.agent.Config.Routing = ByModel
	s.agent.Model = llm.NewScript(append([]llm.Line{{Role: "router", Reply: "earth-product-statistics"}}, planner("get_filelist", "magic_tool"), planner("get_filelist", "SAM2"), llm.Line{Role: "planner", Reply: "I would list the files."})...)
	s.script = s.agent.Model.(*llm.Script)
	o := s.run().must(t, PlanFailed)
	asked := s.asked("planner")
	if len(asked) != 3 || !strings.Contains(asked[1], "magic_tool") || !strings.Contains(asked[1], "cannot be carried out") || !strings.Contains(asked[2], "SAM2 is not a tool of the skill") {
		t.Errorf("%d prompts", len(asked))
	}
	s.invoked()
	if len(o.Calls) != 0 || o.Answer != "" {
		t.Errorf("%+v", o)
	}
}

// AGT-7: a sequence is valid if file inputs have a possible producer.
func TestPlanNeedsAProducer(t *testing.T) {
	s := newScene(t, append(answers("x"), planner("calc_batch_image_mean"), planner("download_product", "calc_batch_image_mean"))...)
	s.task.Inputs = parse(t, `{"aoi":"Nairobi"}`)
	s.run()
	if asked := s.asked("planner"); len(asked) < 2 || !strings.Contains(asked[1], "step 1: calc_batch_image_mean reads files") {
		t.Errorf("%d prompts", len(asked))
	}
}

// EVAL-14: planning-only takes the proposed tools as they are: no calls,
// validation, retries or repairs.
func TestEVAL14PlanningOnly(t *testing.T) {
	s := newScene(t, planner("get_filelist", "magic_tool"))
	s.agent.Config.Mode = PlanningOnly
	o := s.run().must(t, Planned)
	s.invoked()
	if !slices.Equal(o.Plan, []string{"get_filelist", "magic_tool"}) || len(s.asked("")) != 1 {
		t.Errorf("%v, %d prompts", o.Plan, len(s.asked("")))
	}
	if trace := o.Trace("question1"); trace.Get("plan").Len() != 2 || !trace.Get("tool_calls").IsAbsent() {
		t.Errorf("%s", trace.JSON())
	}
}

// EVAL-17: without skills the router sees all 112 tools and no prompt has a
// skill's text.
func TestEVAL17NoSkills(t *testing.T) {
	s := smooth(t)
	s.agent.Config.Skills = false
	o := s.run().must(t, Answered)
	if n := len(s.events(memory.Routed)[0].Tools); n != 112 || o.Skill != "" {
		t.Errorf("%d candidates, skill %q", n, o.Skill)
	}
	for _, p := range s.asked("") {
		if strings.Contains(p, "# Skill") || strings.Contains(p, "## Procedure") {
			t.Errorf("a skill in %q", p[:200])
		}
	}
}

// AGT-33: Planner and Executor call their own adapter; other roles the base.
func TestAGT33Adapters(t *testing.T) {
	s := smooth(t)
	s.agent.Config.Checks = ByModel
	s.run().must(t, Answered)
	for _, r := range s.script.Asked("") {
		want := map[string]string{"planner": "planner-adapter", "executor": "executor-adapter"}[r.Role]
		if want == "" {
			want = "base"
		}
		if r.Model != want {
			t.Errorf("%s asks %s, want %s", r.Role, r.Model, want)
		}
	}
}
