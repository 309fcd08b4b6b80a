package stac

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"terraloom/agent/archive"
	"terraloom/data/strictyaml"
)

// Config says which API to use and how.
type Config struct {
	URL string `yaml:"url"` // of the API's landing page; searches go to URL/search
	// Collections maps product IDs or aliases of the product table to collections
	// of the API. Only these products are offered.
	Collections map[string]Collection `yaml:"collections"`
	// TokenEnv names the environment variable that holds a bearer token for the
	// API. The token goes to the host of URL and nowhere else.
	TokenEnv string `yaml:"token_env"`
	// SignEnv names the environment variable that holds a signature, as
	// "sig=…&se=…", to be added to the address of every asset. Planetary Computer
	// wants one, which it hands out at api/sas/v1/token/COLLECTION.
	SignEnv string `yaml:"sign_env"`

	Timeout   time.Duration `yaml:"timeout"`    // of one request up to its header and of a stall in its body; 60 s if 0
	Retries   int           `yaml:"retries"`    // further tries of a request that failed for a passing reason; 4 if 0
	PageSize  int           `yaml:"page_size"`  // items per page; 100 if 0
	MaxItems  int           `yaml:"max_items"`  // items of one search; 5000 if 0
	MaxAsset  int64         `yaml:"max_asset"`  // bytes of one asset; 2 GiB if 0
	FirstWait time.Duration `yaml:"first_wait"` // before the first retry, doubled each time; 500 ms if 0
}

// Collection is where a product is found.
type Collection struct {
	ID string `yaml:"id"`
	// Query narrows the items by their properties, as the STAC API query
	// extension has it: {platform: {eq: landsat-8}}.
	Query map[string]map[string]any `yaml:"query"`
	// Prefix begins the IDs of the product's items, where a collection holds those
	// of several: MOD of Terra beside MYD of Aqua.
	Prefix string `yaml:"prefix"`
	// Assets maps bands to keys of assets, or to the name of a band in an asset of
	// several. A band that is left out, or is not there, is looked for by its name
	// and aliases among the keys and the band names of the assets.
	Assets map[string]string `yaml:"assets"`
}

// names are what a band may be called, the likeliest first.
func (c Collection) names(b *archive.Band) []string {
	names := append([]string{b.Name}, b.Aliases...)
	if key := c.Assets[b.Name]; key != "" {
		names = append([]string{key}, names...)
	}
	return names
}

// Limits that protect the machine from a server.
const (
	maxPage = 64 << 20        // bytes of one page of items
	maxWait = 2 * time.Minute // that a Retry-After may ask for
)

// ErrConfig is wrapped by every error about a Config.
var ErrConfig = errors.New("bad STAC configuration")

// LoadConfig reads a YAML file.
func LoadConfig(path string) (Config, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	var c Config
	if err := strictyaml.Unmarshal(src, path, &c); err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, nil
}

// check fills in the defaults and refuses what cannot be.
func (c *Config) check() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%w: url: expected the http or https address of a STAC API, without a user", ErrConfig)
	}
	for key, v := range map[string]int64{"timeout": int64(c.Timeout), "retries": int64(c.Retries), "page_size": int64(c.PageSize),
		"max_items": int64(c.MaxItems), "max_asset": c.MaxAsset, "first_wait": int64(c.FirstWait)} {
		if v < 0 {
			return fmt.Errorf("%w: %s is negative", ErrConfig, key)
		}
	}
	if len(c.Collections) == 0 {
		return fmt.Errorf("%w: collections: map at least one product to a collection", ErrConfig)
	}
	for product, col := range c.Collections {
		if col.ID == "" {
			return fmt.Errorf("%w: collections: %s has no id", ErrConfig, product)
		}
	}
	for key, name := range map[string]string{"token_env": c.TokenEnv, "sign_env": c.SignEnv} {
		if name != "" && os.Getenv(name) == "" {
			return fmt.Errorf("%w: %s: the environment variable %s is not set", ErrConfig, key, name)
		}
	}
	setDefault(&c.Timeout, time.Minute)
	setDefault(&c.Retries, 4)
	setDefault(&c.PageSize, 100)
	setDefault(&c.MaxItems, 5000)
	setDefault(&c.MaxAsset, 2<<30)
	setDefault(&c.FirstWait, 500*time.Millisecond)
	return nil
}

func setDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}
