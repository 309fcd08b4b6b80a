package catalogue

import (
	_ "embed"
	"sync"
)

//go:embed openearthagent.yaml
var openEarthAgentYAML []byte

// openEarthAgent are the 23 tools of OpenEarthAgent, loaded once.
var openEarthAgent = sync.OnceValue(func() *Catalogue {
	c, err := parse(openEarthAgentYAML)
	if err != nil {
		panic("catalogue: embedded openearthagent.yaml: " + err.Error()) // a broken build; the tests load it
	}
	return c
})

// For returns the catalogue whose tools a trajectory of that source calls.
func For(source string) *Catalogue {
	if source == "openearthagent" {
		return openEarthAgent()
	}
	return Default()
}
