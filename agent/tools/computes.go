package tools

// Computes reports whether Call can give the tool's observation here: whether
// the registry has a function for it. With New these are the pure tools.
func (r *Registry) Computes(name string) bool {
	res, err := r.catalogue.Resolve(name)
	return err == nil && r.tools[res.Tool.Name] != nil
}
