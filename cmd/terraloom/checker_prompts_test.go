package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"terraloom/data/catalogue"
)

// executorPrompt checks what one node's prompt shows: an Executor prompt shows every
// observed value that its target repeats and nothing of its own or a later step.
func (c *checker) executorPrompt(in *rawSeed, seedID string, node int, prompt string) {
	for at, from := range c.edges[seedID][node] {
		v := leafAt(in.steps[node].args, at)
		shown := false
		if text, ok := v.(string); ok {
			if _, number := asNumber(v); !number {
				shown = strings.Contains(prompt, lastPart(text))
			}
		}
		for _, p := range from {
			if o := leafAt(in.steps[p.step].obs, p.at); !shown && o != nil {
				shown = strings.Contains(prompt, fmt.Sprint(o))
			}
		}
		for k := 0; !shown && k < node; k++ { // a pure tool's own output has another shape
			for _, o := range leavesOf(in.steps[k].obs) {
				shown = shown || sameValueAs(v, o.v) && strings.Contains(prompt, fmt.Sprint(o.v))
			}
		}
		if !shown {
			c.fault("%s node %d: the prompt does not show %v, which %s takes from %v", in.id, node, v, at, from)
		}
	}
	earlier := func(text string) bool {
		if strings.Contains(in.query, text) || strings.Contains(fmt.Sprint(in.inputs), text) {
			return true
		}
		for k := range node {
			for _, v := range []any{in.steps[k].args, in.steps[k].obs} {
				for _, l := range leavesOf(v) {
					if strings.Contains(fmt.Sprint(l.v), text) {
						return true
					}
				}
			}
		}
		return false
	}
	hidden := func(what string, v any) {
		looked := 0
		for _, l := range leavesOf(v) {
			text := fmt.Sprint(l.v)
			if len(text) < 6 {
				continue // too short to tell
			}
			if looked++; looked > 6 {
				break
			}
			if strings.Contains(prompt, text) && !earlier(text) {
				c.fault("%s node %d: the prompt shows %s, %q", in.id, node, what, text)
			}
		}
	}
	for k := node; k < min(node+2, len(in.steps)); k++ {
		hidden(fmt.Sprintf("what step %d returned", k), in.steps[k].obs)
		for key, v := range in.steps[k].args.(map[string]any) {
			if strings.HasPrefix(key, "output") || strings.HasPrefix(key, "save") {
				hidden(fmt.Sprintf("%s of step %d", key, k), v)
			}
		}
	}
}

func leafAt(v any, at string) any {
	for _, token := range strings.Split(at, "/")[1:] {
		switch x := v.(type) {
		case map[string]any:
			v = x[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i >= len(x) {
				return nil
			}
			v = x[i]
		}
	}
	return v
}

// plannerPrompt checks the candidates of a prompt in the full style: 20 to 30,
// the plan's tools among them, in the order of the catalogue, which says nothing
// of the plan.
func (c *checker) plannerPrompt(in *rawSeed, prompt string) {
	_, list, ok := strings.Cut(prompt, "\n# Tools\n")
	if !ok {
		c.fault("%s: the planner prompt has no tools", in.id)
		return
	}
	cat := catalogue.Default()
	position := map[string]int{}
	for i, t := range cat.Tools() {
		position[t.Name] = i
	}
	shown := map[string]bool{}
	last := -1
	for line := range strings.Lines(list) {
		var tool struct {
			Name, Description string
			Parameters        map[string]any
		}
		if err := json.Unmarshal([]byte(line), &tool); err != nil || tool.Description == "" || tool.Parameters["type"] != "object" {
			c.fault("%s: the planner prompt has the tool line %.80q (%v)", in.id, line, err)
			return
		}
		r, err := cat.Resolve(tool.Name)
		if err != nil {
			c.fault("%s: candidate %v", in.id, err)
			return
		}
		if position[r.Tool.Name] < last {
			c.fault("%s: candidate %s is out of the catalogue's order", in.id, tool.Name)
		}
		last = position[r.Tool.Name]
		shown[tool.Name] = true
	}
	if len(shown) < 20 || len(shown) > 30 {
		c.fault("%s: %d candidates, want 20 to 30", in.id, len(shown))
	}
	for i, s := range in.steps {
		if !shown[s.tool] {
			c.fault("%s: the plan's %s is no candidate", in.id, s.tool)
		}
		for k, l := range leavesOf(s.obs) {
			if text := fmt.Sprint(l.v); k < 3 && len(text) > 8 && strings.Contains(prompt, text) && !strings.Contains(in.query, text) && !strings.Contains(fmt.Sprint(in.inputs), text) {
				c.fault("%s: the planner prompt shows what step %d returned, %q", in.id, i, text)
			}
		}
	}
}
