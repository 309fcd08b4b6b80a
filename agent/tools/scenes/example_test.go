package scenes_test

import (
	"fmt"

	"terraloom/agent/tools/scenes"
)

func ExampleGenerate() {
	s, err := scenes.Generate(1, scenes.Spec{Class: "Park", Width: 256, Height: 256, GSD: 0.3, Groups: []scenes.Group{{Class: "tennis court", Count: 3}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Truth.Class, len(s.Truth.Of("tennis court")))
	// Output: Park 3
}
