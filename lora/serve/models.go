package serve

import (
	"net/http"
	"slices"
)

// names are the models that clients can ask for.
func (s *Server) names() []string { return append([]string{BaseName}, s.model.Adapters...) }

type modelInfo struct {
	ID        string  `json:"id"`
	Object    string  `json:"object"`
	Created   int64   `json:"created"`
	OwnedBy   string  `json:"owned_by"`
	Parent    *string `json:"parent"` // the model that an adapter changes
	Positions int     `json:"max_model_len"`
}

func (s *Server) info(name string) modelInfo {
	m := modelInfo{ID: name, Object: "model", Created: s.started.Unix(), OwnedBy: "terraloom", Positions: s.model.Positions}
	if name != BaseName {
		m.Parent = new(BaseName)
	}
	return m
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) error {
	data := []modelInfo{}
	for _, name := range s.names() {
		data = append(data, s.info(name))
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
	return nil
}

func (s *Server) showModel(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("model")
	if !slices.Contains(s.names(), name) {
		return apiError{http.StatusNotFound, "invalid_request_error", "model_not_found", "model", "no model " + name}
	}
	writeJSON(w, http.StatusOK, s.info(name))
	return nil
}
