package slots

import (
	"fmt"

	"terraloom/data"
	"terraloom/data/strictjson"
)

// Recorded answers the calls of a seed as the seed records them. It stands in for
// an environment where a program is discovered or compiled, which looks at the
// seed's own calls only. It implements Tools.
type Recorded struct{ Seed *data.Trajectory }

// Computes is true: every observation of the seed was computed.
func (r Recorded) Computes(string) bool { return true }

// Call returns the recorded observation of a call of the seed.
func (r Recorded) Call(tool string, arguments strictjson.Value) (strictjson.Value, error) {
	for i := range r.Seed.Steps {
		if s := &r.Seed.Steps[i]; s.Tool == tool && s.Arguments.Equal(arguments) {
			return s.Observation, nil
		}
	}
	return strictjson.Value{}, fmt.Errorf("%s does not record this call of %s", r.Seed.ID, tool)
}
