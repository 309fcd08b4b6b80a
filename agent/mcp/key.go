package mcp

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Key is a bearer key. It prints as [key] everywhere, so that no log holds it.
// The zero Key is none.
type Key struct{ secret string }

// shortestKey keeps guessable keys out.
const shortestKey = 16

// KeyFromEnv reads a key from an environment variable; an unset or empty one
// gives the zero Key.
func KeyFromEnv(name string) (Key, error) {
	secret := os.Getenv(name)
	switch {
	case secret == "":
		return Key{}, nil
	case len(secret) < shortestKey:
		return Key{}, fmt.Errorf("%s: the key has %d characters, give at least %d", name, len(secret), shortestKey)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Key{}, fmt.Errorf("%s: a key has printable ASCII characters only, without spaces", name)
	}
	return Key{secret}, nil
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.secret == "" }

// String hides the key.
func (k Key) String() string { return "[key]" }

// GoString hides the key.
func (k Key) GoString() string { return "[key]" }

// opens reports whether a request carries the key, in a time that does not
// depend on where it differs.
func (k Key) opens(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(k.secret))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}
