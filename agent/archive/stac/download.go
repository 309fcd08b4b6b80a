package stac

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Download fetches an asset into the file part. What the file holds already of the
// same version of the asset is not fetched again, be it from this call or from
// one that was cut off; an asset of another version, or without a version,
// begins anew. A file that fails its size or checksum is fetched once more.
func (c *Client) Download(ctx context.Context, a Asset, part string) error {
	u, err := url.Parse(a.Href)
	switch {
	case err != nil:
		return fmt.Errorf("%w: an asset has no usable address", ErrFormat)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%w: an asset lies at %s://%s, not at an http or https address; a bucket wants its own credentials: take an API or an archive that serves files", ErrFormat, u.Scheme, u.Host)
	}
	if c.cfg.SignEnv != "" {
		sign := os.Getenv(c.cfg.SignEnv)
		u.RawQuery = strings.TrimPrefix(strings.Join([]string{u.RawQuery, strings.TrimPrefix(sign, "?")}, "&"), "&")
	}
	if a.Size != nil && *a.Size > c.cfg.MaxAsset {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are taken", ErrTooLarge, show(u), *a.Size, c.cfg.MaxAsset)
	}
	for second := false; ; second = true {
		if err := c.fetch(ctx, u, part); err != nil {
			return err
		}
		err := a.verify(part)
		if err == nil {
			return removeIfThere(versionFile(part))
		}
		if err := errors.Join(removeIfThere(part), removeIfThere(versionFile(part))); err != nil {
			return err
		}
		if second || !errors.Is(err, ErrChecksum) {
			return fmt.Errorf("%s: %w", show(u), err)
		}
	}
}

// versionFile is where the version (ETag) of a partial download is kept.
func versionFile(part string) string { return part + ".etag" }

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// fetch brings the file part to its full length.
func (c *Client) fetch(ctx context.Context, u *url.URL, part string) error {
	r := request{method: http.MethodGet, url: u}
	return c.send(ctx, r, c.resume(r, part))
}

// resume prepares the header of a try and takes its answer.
func (c *Client) resume(r request, part string) exchange {
	var have int64
	return func(req *http.Request, resp *http.Response) error {
		if resp == nil {
			have = c.resumable(req, part)
			return nil
		}
		switch resp.StatusCode {
		case http.StatusOK:
			have = 0
		case http.StatusPartialContent:
			if start, ok := rangeStart(resp.Header.Get("Content-Range")); !ok || start != have {
				return c.restart(part, "a range that was not asked for")
			}
		case http.StatusRequestedRangeNotSatisfiable:
			if total, ok := rangeTotal(resp.Header.Get("Content-Range")); ok && total == have {
				return nil // it was complete
			}
			return c.restart(part, "no rest of the length it had")
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusConflict: // Azure refuses what is not signed as a conflict
			return fmt.Errorf("%w; if the files want a signature, put one into an environment variable and name it in sign_env of the configuration", c.refused(r, resp))
		default:
			return c.refused(r, resp)
		}
		return c.append(r, resp, part, have)
	}
}

// resumable asks for the rest of a partial download if its version is known, and
// returns the length it has.
func (c *Client) resumable(req *http.Request, part string) int64 {
	info, err := os.Stat(part)
	version, verr := os.ReadFile(versionFile(part))
	if err != nil || verr != nil || info.Size() == 0 {
		return 0
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-", info.Size()))
	req.Header.Set("If-Range", string(version))
	return info.Size()
}

// restart drops a partial download that does not fit the server's answer; the next
// try begins anew.
func (c *Client) restart(part, why string) error {
	if err := errors.Join(removeIfThere(part), removeIfThere(versionFile(part))); err != nil {
		return err
	}
	return &temporary{fmt.Errorf("%w: it sent %s", ErrServer, why)}
}

// append writes the body behind the bytes that are there.
func (c *Client) append(r request, resp *http.Response, part string, have int64) error {
	if resp.ContentLength > c.cfg.MaxAsset-have {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are taken", ErrTooLarge, show(r.url), resp.ContentLength+have, c.cfg.MaxAsset)
	}
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(have); err != nil {
		return err
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return err
	}
	// Only a strong ETag promises that the rest belongs to these bytes.
	if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		err = os.WriteFile(versionFile(part), []byte(tag), 0o644)
	} else {
		err = removeIfThere(versionFile(part))
	}
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(resp.Body, c.cfg.MaxAsset-have+1))
	if have+n > c.cfg.MaxAsset {
		return errors.Join(fmt.Errorf("%w: %s has more than %d bytes", ErrTooLarge, show(r.url), c.cfg.MaxAsset), removeIfThere(part))
	}
	if err != nil {
		return &temporary{fmt.Errorf("%w: %s broke off after %d bytes: %w", ErrServer, show(r.url), have+n, err)}
	}
	return f.Close()
}

// rangeStart reads the first byte of "bytes 100-199/1000".
func rangeStart(v string) (int64, bool) {
	text, ok := strings.CutPrefix(v, "bytes ")
	first, _, dash := strings.Cut(text, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	return n, ok && dash && err == nil
}

// rangeTotal reads the length of "bytes */1000".
func rangeTotal(v string) (int64, bool) {
	text, ok := strings.CutPrefix(v, "bytes */")
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil
}

// multihashes are the hash functions of checksums by their multihash code.
var multihashes = map[string]func() hash.Hash{"1114": sha1.New, "1220": sha256.New, "1340": sha512.New, "d50110": md5.New}

// verify checks the size and the checksum that the item states. A checksum of an
// unknown kind is an error: nobody would notice a broken file.
func (a Asset) verify(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if a.Size != nil && info.Size() != *a.Size {
		return fmt.Errorf("%w: %d bytes, expected %d", ErrChecksum, info.Size(), *a.Size)
	}
	if a.Checksum == "" {
		return nil
	}
	sum := strings.ToLower(a.Checksum)
	for code, make := range multihashes {
		want, ok := strings.CutPrefix(sum, code)
		h := make()
		if !ok || len(want) != 2*h.Size() {
			continue
		}
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != want {
			return fmt.Errorf("%w: %s, expected %s", ErrChecksum, got, want)
		}
		return nil
	}
	return fmt.Errorf("%w: file:checksum %.20q… is of no known kind", ErrFormat, sum)
}
