package seeds

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"terraloom/agent/environment"
	"terraloom/slots"
)

func TestScratch(t *testing.T) {
	spec, err := Load(os.DirFS("../../data/seeds"))
	if err != nil {
		t.Fatal(err)
	}
	col, err := environment.ParseCollections(spec.Scenes, "scenes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env, err := environment.Open(col, environment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	for _, f := range spec.Families {
		for _, s := range f.Seeds {
			start := time.Now()
			tr, err := Build(context.Background(), env, f, s)
			if err != nil {
				t.Error(err)
				continue
			}
			fmt.Println(time.Since(start))
			fmt.Println(tr.Value().JSON())
			p, err := slots.Discover(tr, slots.Recorded{Seed: tr})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(string(p.YAML()))
		}
	}
}
