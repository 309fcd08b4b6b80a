package checkpoint

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Folder is a model to be written as a Hugging Face folder.
type Folder struct {
	Config  []byte            // config.json: Config.JSON of a new model, or an existing one's, edited
	Tensors []Source          // under the names of the file, prefix included
	Copy    map[string]string // further files: base name → path of the original, e.g. Model.TokenizerFiles
}

// WriteFolder writes config.json, model.safetensors and the copied files into a temporary sibling of dir, opens it to
// prove that it loads, and renames it to dir, which must not exist yet ([ErrExists]).
func WriteFolder(dir string, f Folder) (err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s: %w", dir, ErrExists)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(tmp)
		}
	}()
	err = writeAtomic(filepath.Join(tmp, configFile), func(w io.Writer) error {
		_, err := w.Write(f.Config)
		return err
	})
	if err != nil {
		return err
	}
	for name, original := range f.Copy {
		if name != filepath.Base(name) || name == configFile || name == weightsFile {
			return fmt.Errorf("%s: a copied file cannot be named %q", dir, name)
		}
		if err := copyFile(filepath.Join(tmp, name), original); err != nil {
			return err
		}
	}
	if err := WriteSafetensors(filepath.Join(tmp, weightsFile), nil, f.Tensors); err != nil {
		return err
	}
	m, err := Open(tmp)
	if err != nil {
		return fmt.Errorf("the written model does not open: %w", err)
	}
	if err := m.Close(); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil { // MkdirTemp makes folders private
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return syncDir(parent)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return writeAtomic(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}
