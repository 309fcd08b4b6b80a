package tools

// Computes reports whether Call can give the tool's observation here: whether
// the registry has a function for it, of those that its environment allows.
func (r *Registry) Computes(name string) bool {
	res, err := r.catalogue.Resolve(name)
	return err == nil && r.tools[res.Tool.Name] != nil
}
