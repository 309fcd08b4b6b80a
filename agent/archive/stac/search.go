package stac

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"terraloom/agent/archive"
)

// Search says which items to look for.
type Search struct {
	Collection string
	Box        archive.Box
	From, To   time.Time // first and last day
	Query      map[string]map[string]any
}

// link is a link of a page to the next.
type link struct {
	Rel    string          `json:"rel"`
	Href   string          `json:"href"`
	Method string          `json:"method"`
	Body   json.RawMessage `json:"body"`
	Merge  bool            `json:"merge"`
}

// page is an item collection.
type page struct {
	Type     string `json:"type"`
	Features []Item `json:"features"`
	Links    []link `json:"links"`
}

// Search returns the items in the order of the server, page by page along the
// links "next".
func (c *Client) Search(ctx context.Context, s Search) ([]Item, error) {
	query := map[string]any{
		"collections": []string{s.Collection},
		"bbox":        []float64{s.Box.West, s.Box.South, s.Box.East, s.Box.North},
		"datetime":    s.From.Format(time.DateOnly) + "T00:00:00Z/" + s.To.Format(time.DateOnly) + "T23:59:59Z",
		"limit":       c.cfg.PageSize,
	}
	if len(s.Query) > 0 {
		query["query"] = s.Query
	}
	next, err := c.post(c.base.JoinPath("search"), query)
	if err != nil {
		return nil, err
	}
	var items []Item
	seen := map[string]bool{}
	for {
		// A server that leads in a circle would keep us for ever.
		state := next.method + " " + next.url.String() + " " + bodyText(next)
		if seen[state] {
			return nil, fmt.Errorf("%w: %s: the link to the next page leads back", ErrFormat, show(next.url))
		}
		seen[state] = true
		p, err := c.page(ctx, next)
		if err != nil {
			return nil, err
		}
		for i := range p.Features {
			if err := p.Features[i].check(); err != nil {
				return nil, err
			}
			p.Features[i].resolve(next.url)
		}
		items = append(items, p.Features...)
		if len(items) > c.cfg.MaxItems {
			return nil, fmt.Errorf("%w: the search finds more than %d items: use a smaller box or a shorter period", ErrTooLarge, c.cfg.MaxItems)
		}
		more, err := c.following(p, next, query)
		if err != nil {
			return nil, err
		}
		if more == nil {
			return items, nil
		}
		next = *more
	}
}

// resolve completes the addresses of the assets, which may be relative to the page.
func (i *Item) resolve(page *url.URL) {
	for key, a := range i.Assets {
		if u, err := page.Parse(a.Href); err == nil && a.Href != "" {
			a.Href = u.String()
			i.Assets[key] = a
		}
	}
}

func bodyText(r request) string {
	if r.body == nil {
		return ""
	}
	text, err := io.ReadAll(r.body())
	if err != nil {
		return ""
	}
	return string(text)
}

// post makes the request of a search.
func (c *Client) post(u *url.URL, query map[string]any) (request, error) {
	text, err := json.Marshal(query)
	if err != nil {
		return request{}, fmt.Errorf("%w: query: %w", ErrConfig, err)
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/geo+json"}}
	return request{method: http.MethodPost, url: u, header: h, body: func() io.Reader { return bytes.NewReader(text) }}, nil
}

// page fetches one page.
func (c *Client) page(ctx context.Context, r request) (*page, error) {
	var p page
	err := c.send(ctx, r, func(_ *http.Request, resp *http.Response) error {
		if resp == nil {
			p = page{}
			return nil
		}
		if resp.StatusCode != http.StatusOK {
			return c.refused(r, resp)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
		if err != nil {
			return &temporary{fmt.Errorf("%w: %s: the page broke off: %w", ErrServer, show(r.url), err)}
		}
		if len(text) > maxPage {
			return fmt.Errorf("%w: %s: a page of more than %d bytes", ErrTooLarge, show(r.url), maxPage)
		}
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrFormat, show(r.url), err)
		}
		if p.Type != "FeatureCollection" {
			return fmt.Errorf("%w: %s: type is %q, expected \"FeatureCollection\"", ErrFormat, show(r.url), p.Type)
		}
		return nil
	})
	return &p, err
}

// following makes the request of the page after p, or nil if p is the last. A link
// may be followed by GET as it stands, or by POST with a body of its own, which
// with merge adds to that of the search.
func (c *Client) following(p *page, last request, query map[string]any) (*request, error) {
	for _, l := range p.Links {
		if l.Rel != "next" {
			continue
		}
		u, err := last.url.Parse(l.Href)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("%w: %s: the link to the next page has no usable address", ErrFormat, show(last.url))
		}
		if !strings.EqualFold(l.Method, http.MethodPost) {
			return &request{method: http.MethodGet, url: u, header: http.Header{"Accept": {"application/geo+json"}}}, nil
		}
		body := map[string]any{}
		if l.Merge || len(l.Body) == 0 {
			maps.Copy(body, query)
		}
		if len(l.Body) > 0 {
			var own map[string]any
			if err := json.Unmarshal(l.Body, &own); err != nil {
				return nil, fmt.Errorf("%w: %s: the body of the next page: %w", ErrFormat, show(last.url), err)
			}
			maps.Copy(body, own)
		}
		r, err := c.post(u, body)
		return &r, err
	}
	return nil, nil
}

// HasCollection returns ErrMissing if the API says that it has no such
// collection. A search alone does not tell: it just finds nothing.
func (c *Client) HasCollection(ctx context.Context, id string) error {
	r := request{method: http.MethodGet, url: c.base.JoinPath("collections", url.PathEscape(id)), header: http.Header{"Accept": {"application/json"}}}
	return c.send(ctx, r, func(_ *http.Request, resp *http.Response) error {
		if resp != nil && resp.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%w: %s has no collection %q; map the product to one that it has in the configuration, or take another API or archive", ErrMissing, show(c.base), id)
		}
		return nil // it is there, or the API does not list collections
	})
}
