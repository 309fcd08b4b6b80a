package catalogue

import "testing"

func TestForSource(t *testing.T) {
	if n := len(For("openearthagent").Tools()); n != 23 {
		t.Errorf("OpenEarthAgent has %d tools, want 23", n)
	}
	for _, source := range []string{"earth-bench", "own"} {
		if For(source) != Default() {
			t.Errorf("%s does not use the default catalogue", source)
		}
	}
	if _, err := For("openearthagent").Resolve("compute_tvdi"); err == nil {
		t.Error("OpenEarthAgent has compute_tvdi")
	}
}
