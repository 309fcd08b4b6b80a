package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"terraloom/agent/llm"
	"terraloom/agent/memory"
	"terraloom/agent/rsure"
	agent "terraloom/agent/run"
	"terraloom/agent/show"
	"terraloom/agent/surface"
	"terraloom/agent/tools/workspace"
	"terraloom/data/catalogue"
	"terraloom/data/prompt"
	"terraloom/data/skills"
	"terraloom/data/strictjson"
	"terraloom/lora/generate"
	"terraloom/lora/serve"
)

func newAgentCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "agent", Short: "Answer Earth-observation questions with tools, and look at runs"}
	prior := &cobra.Command{Use: "prior", Short: "The reliability prior of the observation protocol",
		Example: "  terraloom agent prior fit runs/calibration_AP --benchmark calibration.json --out prior.json"}
	prior.AddCommand(newAgentPriorFitCmd())
	needVerb(prior)
	cmd.AddCommand(newAgentRunCmd(), newAgentShowCmd(), prior)
	return cmd
}

// errUnanswered is an answer that rests on incomplete evidence, or none.
var errUnanswered = errors.New("the question is not answered from sufficient evidence")

// llmFlags name the model of an agent: a server, a script, or a local base with
// adapters.
type llmFlags struct {
	engine            backendFlags
	url, model, base  string
	planner, executor string
	adapters          []string
	priceIn, priceOut float64
	timeout           time.Duration
	tries             int
	rows              int // completions decoded together, of a local model
}

func (f *llmFlags) add(cmd *cobra.Command) {
	f.engine.add(cmd.Flags())
	g := cmd.Flags()
	g.StringVar(&f.url, "llm", "", "base URL of an OpenAI-compatible server, or script:FILE with prepared replies")
	g.StringVar(&f.model, "model", "", "model name on the server of --llm")
	g.StringVar(&f.planner, "planner-model", "", "model name of the Planner (default: the adapter planner, else --model)")
	g.StringVar(&f.executor, "executor-model", "", "model name of the Executor (default: the adapter executor, else --model)")
	g.StringVar(&f.base, "base", "", "model folder, GGUF file or name of a pulled model to run here, in place of --llm")
	g.StringArrayVar(&f.adapters, "adapter", nil, "adapter of --base as name=DIR; planner and executor serve these roles")
	g.DurationVar(&f.timeout, "llm-timeout", 5*time.Minute, "longest time for one answer of the model")
	g.IntVar(&f.tries, "llm-tries", 4, "requests for one answer while the server is busy or broken")
	g.Float64Var(&f.priceIn, "price-in", 0, "price of a million prompt tokens, for --max-cost")
	g.Float64Var(&f.priceOut, "price-out", 0, "price of a million completion tokens")
	cmd.MarkFlagsMutuallyExclusive("llm", "base")
	cmd.MarkFlagsOneRequired("llm", "base")
}

// open gives the model and the names of its roles. close ends a local server.
func (f *llmFlags) open(ctx context.Context) (m llm.Model, names agent.Models, done func(), err error) {
	done = func() {}
	pick := func(name, otherwise string) string {
		if name == "" {
			return otherwise
		}
		return name
	}
	if path, ok := strings.CutPrefix(f.url, "script:"); ok {
		s, err := llm.ReadScript(path)
		if err != nil {
			return nil, names, done, inputError{err}
		}
		return s, agent.Models{Planner: pick(f.planner, f.model), Executor: pick(f.executor, f.model), Other: f.model}, done, nil
	}
	server := &llm.Server{URL: f.url, Model: f.model, Key: os.Getenv("TERRALOOM_LLM_KEY"), Timeout: f.timeout, Tries: f.tries, Pause: time.Second, Stream: true}
	if f.base == "" {
		if f.model == "" {
			return nil, names, done, usageError{errors.New("--llm URL needs --model NAME")}
		}
		return server, agent.Models{Planner: pick(f.planner, f.model), Executor: pick(f.executor, f.model), Other: f.model}, done, nil
	}
	adapters, url, key, done, err := f.serve(ctx)
	if err != nil {
		return nil, names, func() {}, err
	}
	server.URL, server.Key, server.Model = url, key, serve.BaseName
	role := func(flag, name string) string {
		if flag == "" && slices.Contains(adapters, name) {
			return name
		}
		return pick(flag, serve.BaseName)
	}
	return server, agent.Models{Planner: role(f.planner, "planner"), Executor: role(f.executor, "executor"), Other: serve.BaseName}, done, nil
}

// serve runs the local model on the loopback, for this process alone.
func (f *llmFlags) serve(ctx context.Context) (adapters []string, url, key string, done func(), err error) {
	named, err := namedAdapters(f.adapters)
	if err != nil {
		return nil, "", "", nil, err
	}
	b, err := f.engine.open()
	if err != nil {
		return nil, "", "", nil, err
	}
	l, err := generate.Open(b, f.base, named, f.engine.precision(), generate.Options{MaxRows: max(f.rows, 4)})
	if err != nil {
		return nil, "", "", nil, err
	}
	key = rand.Text()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := serve.New(serve.ModelOf(l), serve.Options{Key: key, Grace: time.Millisecond, Timeout: f.timeout, MaxBody: 64 << 20, Log: quiet})
	if err != nil {
		l.Close()
		return nil, "", "", nil, usageError{err}
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Close()
		return nil, "", "", nil, err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Run(serving, socket); err != nil {
			slog.Warn("the local model server ended", "error", err)
		}
	}()
	return l.Adapters, "http://" + socket.Addr().String() + "/v1", key, func() { cancel(); <-ended; l.Close() }, nil
}

// namedAdapters reads name=DIR.
func namedAdapters(list []string) ([]generate.Named, error) {
	var named []generate.Named
	for _, a := range list {
		name, dir, ok := strings.Cut(a, "=")
		if !ok || name == "" || dir == "" {
			return nil, usageError{fmt.Errorf("--adapter %s: expected name=DIR", a)}
		}
		named = append(named, generate.Named{Name: name, Dir: dir})
	}
	return named, nil
}

// agentFlags configure an agent.
type agentFlags struct {
	config                                                         agent.Config
	planning, arguments, checks, routing, answers, protocol, style string
	noEarlyStop                                                    bool
	skillsDir, prior                                               string
	llm                                                            llmFlags
}

func (f *agentFlags) add(cmd *cobra.Command) {
	f.config = agent.Default
	c, g := &f.config, cmd.Flags()
	f.llm.add(cmd)
	g.StringVar(&f.planning, "planning", string(c.Planning), "one-shot, or debate of four roles")
	g.StringVar(&f.arguments, "arguments", string(c.Arguments), "how the Executor gives arguments: text, as in training, or calls, native tool calls")
	g.StringVar(&f.checks, "checks", string(c.Checks), "who decides what rules cannot: model, or rules (nobody)")
	g.StringVar(&f.routing, "routing", string(c.Routing), "who chooses the skill: model, or rules (keywords)")
	g.StringVar(&f.answers, "answers", string(c.Answers), "who writes the answer: model, or rules (the last accepted number, for models too small to write)")
	g.StringVar(&f.protocol, "protocol", string(c.Protocol), "verification of observations: off, deterministic or full")
	g.StringVar(&f.prior, "prior", "", "reliability prior for --protocol full, made by agent prior fit")
	g.BoolVar(&c.Vision, "vision", false, "the model of --llm can see: a verifier of observations gets the task's PNG and JPEG images")
	cmd.MarkFlagsMutuallyExclusive("vision", "base") // models that run here read text
	g.StringVar(&f.style, "style", string(c.Style), "tool descriptions in prompts; take that of the training data")
	g.BoolVar(&f.noEarlyStop, "no-early-stop", false, "carry out every step, even where the evidence suffices before")
	g.StringVar(&f.skillsDir, "skills", "", "folder of skills in place of the bundled ones")
	g.IntVar(&c.Limits.ToolCalls, "max-calls", c.Limits.ToolCalls, "most tool calls of a question")
	g.IntVar(&c.Limits.ModelCalls, "max-turns", c.Limits.ModelCalls, "most model calls of a question; 0: no limit")
	g.IntVar(&c.Limits.Tokens, "max-tokens", c.Limits.Tokens, "most tokens of a question; 0: no limit")
	g.IntVar(&c.Limits.Reply, "max-reply", c.Limits.Reply, "most tokens of one reply; 0: the server's limit")
	g.Float64Var(&c.Limits.Cost, "max-cost", c.Limits.Cost, "most that a question may cost, by --price-in and --price-out; 0: no limit")
	g.DurationVar(&c.Limits.Time, "max-time", c.Limits.Time, "longest time for a question; 0: no limit")
}

// agent opens the model and makes the agent. done ends a local model.
func (f *agentFlags) agent(ctx context.Context) (a *agent.Agent, done func(), err error) {
	c := f.config
	c.Planning, c.Arguments, c.Checks, c.Routing = agent.Planning(f.planning), agent.Arguments(f.arguments), agent.Checks(f.checks), agent.Checks(f.routing)
	c.Answers = agent.Checks(f.answers)
	c.Protocol, c.Style, c.EarlyStop = rsure.Level(f.protocol), prompt.Style(f.style), !f.noEarlyStop
	if err := c.Validate(); err != nil {
		return nil, nil, usageError{err}
	}
	a = &agent.Agent{Price: llm.Price{Prompt: f.llm.priceIn, Completion: f.llm.priceOut}}
	if f.prior != "" {
		if a.Prior, err = rsure.ReadPrior(f.prior); err != nil {
			return nil, nil, inputError{err}
		}
	}
	if f.skillsDir != "" {
		if a.Skills, err = skills.Load(os.DirFS(f.skillsDir), catalogue.Default()); err != nil {
			return nil, nil, inputError{fmt.Errorf("--skills %s: %w", f.skillsDir, err)}
		}
	}
	if a.Model, c.Models, done, err = f.llm.open(ctx); err != nil {
		return nil, nil, err
	}
	a.Config = c
	return a, done, nil
}

func newAgentRunCmd() *cobra.Command {
	var from agentFlags
	var env toolsFlags
	var dataDir, out, inputs, requirement, id, regime, plan, kit, mode string
	var resume, noSkills, asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "run QUESTION",
		Short: "Answer a question",
		Long: `Plans, calls tools, verifies what they give, repairs the plan where a step fails, and answers from the evidence that was
accepted. The run's folder holds a journal of everything; --resume goes on with a run that was killed, without repeating
accepted calls. The answer goes to standard output, progress to standard error.

The modes react, critic and tools-fail are baselines: loops that call tools without a plan. critic checks its answer with
tools and revises it, tools-fail judges every tool output by a checklist.

--data is the folder of prepared files; without it the run has an empty workspace of its own and downloads what it needs
from --archive. The key of a server is read from TERRALOOM_LLM_KEY.

Exit code 0: answered. 4: the evidence is incomplete, or a limit was reached. 1: the model does not answer.`,
		Example: `  terraloom agent run "How many ships lie in the harbour?" --data DIR --inputs '{"data_path": "benchmark/data/question7"}' --base models/base --adapter planner=P --adapter executor=E
  terraloom agent run "Mean night lights over Nairobi in 2014?" --llm http://127.0.0.1:8000/v1 --model qwen --arguments calls --json
  terraloom agent run --resume --out runs/nairobi --llm http://127.0.0.1:8000/v1 --model qwen`,
		Args: func(_ *cobra.Command, args []string) error {
			if resume != (len(args) == 0) || len(args) > 1 {
				return usageError{errors.New("give one question, or --resume and none")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			from.config.Mode, from.config.Skills = agent.Mode(mode), !noSkills
			task := agent.Task{ID: id, Regime: regime, Requirement: requirement, Inputs: strictjson.Obj()}
			if inputs != "" {
				if task.Inputs, err = strictjson.Parse([]byte(inputs)); err != nil || task.Inputs.Kind() != strictjson.Object {
					return usageError{fmt.Errorf("--inputs: expected a JSON object: %w", err)}
				}
			}
			if plan != "" {
				task.Plan = strings.Split(plan, ",")
			}
			if from.prior != "" && from.protocol != string(rsure.Full) {
				return usageError{errors.New("--prior is for --protocol full")}
			}
			if kit == "surface" && !from.config.Mode.Loop() {
				return usageError{errors.New("--tools surface is for --mode react, critic or tools-fail: plans name tools of the kit")}
			}
			if kit != "kit" && kit != "surface" {
				return usageError{fmt.Errorf("--tools %q is neither kit nor surface", kit)}
			}
			if env.workspace = dataDir; dataDir == "" {
				env.workspace = filepath.Join(out, "workspace")
				if err := os.MkdirAll(env.workspace, 0o755); err != nil {
					return err
				}
			}
			world, err := env.open(cmd.Context())
			if err != nil {
				return err
			}
			defer world.close()
			a, done, err := from.agent(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			e := inWorkspace(world.kit, world.files)
			if kit == "surface" {
				if e.Tools, err = surface.New(world.kit, world.files, nil); err != nil {
					return err
				}
				for _, d := range surface.Declarations() {
					e.Offered = append(e.Offered, llm.Tool{Name: d.Name, Description: d.Summary, Schema: d.Schema})
				}
			}
			if !quiet {
				a.Progress = func(p agent.Progress) { printProgress(cmd.ErrOrStderr(), &p) }
				a.Emit = func(text string) { fmt.Fprint(cmd.ErrOrStderr(), printable(text)) }
			}
			var o *agent.Outcome
			if resume {
				o, err = a.Resume(cmd.Context(), e, out)
			} else {
				task.Question = args[0]
				o, err = a.Run(cmd.Context(), task, e, out)
			}
			if err != nil {
				return agentError(err)
			}
			return reportOutcome(cmd.OutOrStdout(), cmd.ErrOrStderr(), o, out, asJSON, quiet)
		},
	}
	from.add(cmd)
	f := cmd.Flags()
	f.StringVar(&dataDir, "data", "", "folder of prepared files: the workspace of the tools")
	f.StringVar(&env.archive, "archive", "synthetic", "where download_product gets its rasters: synthetic, folder:DIR, or stac:URL or stac:CONFIG.yaml")
	f.StringVar(&env.cache, "cache", "", "folder that keeps what the archive gave, by content")
	f.StringVar(&env.perceiver, "perceiver", "", "perception models: scenes:TRUTHS.json, URL of a model server, or mcp:URL or \"mcp:COMMAND ARGS\"")
	f.StringVar(&env.compat, "compat", "", "earth-agent gives the public kit's values, faults included")
	f.StringVar(&out, "out", filepath.Join("runs", "agent-"+time.Now().UTC().Format("20060102-150405.000")), "folder of the run")
	f.BoolVar(&resume, "resume", false, "go on with the run in --out")
	f.StringVar(&inputs, "inputs", "", "what is at hand, as a JSON object, such as {\"data_path\": \"benchmark/data/question1\"}")
	f.StringVar(&requirement, "requirement", "", "form that the answer must have")
	f.StringVar(&id, "id", "", "id of the question in the records")
	f.StringVar(&regime, "regime", "", "if, ap or ow, for the records")
	f.StringVar(&mode, "mode", string(agent.EndToEnd), "end-to-end, planning-only, oracle-plan (with --plan), or a loop without plan: react, critic, tools-fail")
	f.StringVar(&plan, "plan", "", "tools of --mode oracle-plan, separated by commas")
	f.StringVar(&kit, "tools", "kit", "kit, or for a loop without plan surface: perceive, measure, execute, retrieve")
	f.BoolVar(&noSkills, "no-skills", false, "choose no skill: all tools are candidates")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	f.BoolVarP(&quiet, "quiet", "q", false, "no progress")
	return cmd
}

// inWorkspace is the environment of tools with their workspace, nil where they
// have none.
func inWorkspace(kit agent.Tools, w *workspace.Workspace) agent.Environment {
	if w == nil {
		return agent.Environment{Tools: kit}
	}
	return agent.Environment{Tools: kit, Images: agent.ImagesIn(w), Exists: func(p string) bool {
		if _, err := w.Find(p); err == nil {
			return true
		}
		_, err := w.List(p)
		return err == nil
	}}
}

// agentError gives errors of the runtime their exit codes.
func agentError(err error) error {
	switch {
	case errors.Is(err, agent.ErrConfig):
		return usageError{err}
	case errors.Is(err, agent.ErrResume), errors.Is(err, memory.ErrJournal), errors.Is(err, os.ErrNotExist):
		return inputError{err}
	}
	return err
}

// reportOutcome prints the outcome; how it ended decides the exit code.
func reportOutcome(out, progress io.Writer, o *agent.Outcome, dir string, asJSON, quiet bool) error {
	r := o.Result()
	r.Run = dir
	if asJSON {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	} else {
		if !quiet {
			fmt.Fprintf(progress, "\n%s after %d tool calls, %d model calls, %d tokens; terraloom agent show %s\n", r.Status, r.ToolCalls, r.ModelCalls, r.Tokens, dir)
		}
		if o.Status == agent.Planned {
			fmt.Fprintln(out, strings.Join(o.Plan, "\n"))
		} else {
			fmt.Fprintln(out, o.Answer)
		}
	}
	switch o.Status {
	case agent.Answered, agent.Planned:
		return nil
	case agent.Broken:
		return errors.New(o.Reason)
	}
	return fmt.Errorf("%w: %s: %s", errUnanswered, o.Status, o.Reason)
}

// printProgress writes one line for an event.
func printProgress(w io.Writer, p *agent.Progress) {
	text := ""
	switch p.Kind {
	case memory.Routed:
		text = fmt.Sprintf("skill %s, %d tools", p.Code, len(p.Tools))
	case memory.Planned:
		text = "plan " + strings.Join(p.Tools, ", ")
	case memory.Refused:
		text = fmt.Sprintf("refused (%s) [%s]: %s", p.Code, strings.Join(p.Tools, ", "), p.Reason)
	case memory.Called:
		text = fmt.Sprintf("%d %s …", p.Node, p.Tool)
	case memory.Tried:
		text = fmt.Sprintf("%d %s: %s: %s", p.Node, p.Tool, p.Decision, p.Reason)
	case memory.Committed, memory.Noted:
		text = fmt.Sprintf("%d %s -> %s", p.Node, p.Record.Tool, p.Reason)
	case memory.GaveUp:
		text = fmt.Sprintf("%d given up: %s", p.Node, p.Reason)
	case memory.Repaired:
		text = fmt.Sprintf("repair from step %d: %s", p.Node, strings.Join(p.Tools, ", "))
	case memory.Stopped:
		text = fmt.Sprintf("stop after step %d: %s", p.Node, p.Reason)
	case memory.Drafted:
		text = fmt.Sprintf("answer %d, to be checked: %s", p.Attempt, p.Reason)
	case memory.Insufficient:
		text = fmt.Sprintf("insufficient (%s): %s", p.Code, p.Reason)
	default:
		return
	}
	if len(text) > 240 {
		text = strings.ToValidUTF8(text[:240], "") + "…"
	}
	fmt.Fprintln(w, printable(text))
}

// printable keeps tool and model text from driving the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

func newAgentShowCmd() *cobra.Command {
	var html, dataDir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Print a run's workflow and write a page with its maps and series",
		Long: `Prints the workflow as a tree: each step with its arguments and result, rejected attempts, repairs, the answer. With --html
it also writes one page with the maps and series of every step. A run that was killed can be shown too.`,
		Example: "  terraloom agent show runs/nairobi --html nairobi.html",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := show.Read(args[0])
			if err != nil {
				return inputError{err}
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"task": r.Task, "skill": r.Skill, "state": r.State, "result": r.Result}); err != nil {
					return err
				}
			} else if err := r.Tree(cmd.OutOrStdout()); err != nil {
				return err
			}
			if html == "" {
				return nil
			}
			if dataDir == "" {
				dataDir = filepath.Join(args[0], "workspace")
			}
			files, err := workspace.Open(dataDir, workspace.DefaultLimits)
			if err != nil {
				slog.Warn("no workspace, so the page has no maps; name it with --data", "error", err)
				files = nil
			} else {
				defer files.Close()
			}
			out, err := os.Create(html)
			if err != nil {
				return err
			}
			if err := errors.Join(r.Page(out, files), out.Close()); err != nil {
				return err
			}
			slog.Info("page written", "file", html)
			return nil
		},
	}
	cmd.Flags().StringVar(&html, "html", "", "file of the page")
	cmd.Flags().StringVar(&dataDir, "data", "", "workspace of the run, for its maps (default: RUN/workspace)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print task, state and result as JSON")
	return cmd
}
