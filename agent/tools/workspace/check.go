package workspace

// CheckInput reports whether a path could name an input of some workspace: not
// whether a file is there. The error is that of Find.
func CheckInput(p string) error {
	_, err := (&Workspace{dir: "/workspace"}).relative(p)
	return err
}

// CheckOutput reports whether a path could name an output of some workspace. The
// error is that of Target.
func CheckOutput(p string) error {
	_, err := (&Workspace{dir: "/workspace"}).Target(p)
	return err
}
