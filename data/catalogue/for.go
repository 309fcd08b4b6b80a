package catalogue

// For returns the catalogue of a trajectory source: the tools that its steps name.
func For(source string) *Catalogue { return Default() }
