package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// client is a bare HTTP client for the API server: no caches, no client-side rate limit.
type client struct {
	base, token string
	hc          *http.Client
}

func newClient(base string, ca []byte, token string) *client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &client{base: base, token: token, hc: &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 128, MaxIdleConns: 256, IdleConnTimeout: 2 * time.Minute,
	}}}
}

func (c *client) req(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "health-bench")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return c.hc.Do(r)
}

func (c *client) do(method, path, contentType string, body []byte) (int, []byte, error) {
	resp, err := c.req(context.Background(), method, path, contentType, body)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// must2xx does a call and turns anything but 2xx into an error.
func (c *client) must2xx(method, path, contentType string, body []byte) ([]byte, error) {
	code, b, err := c.do(method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	if code < 200 || code > 299 {
		if len(b) > 600 {
			b = b[:600]
		}
		return nil, fmt.Errorf("%s %s: %d: %s", method, path, code, b)
	}
	return b, nil
}

func (c *client) create(path string, obj any) ([]byte, error) {
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return c.must2xx("POST", path, "application/json", b)
}

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
)

func (c *client) patch(path, typ string, obj any) error {
	b, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	_, err = c.must2xx("PATCH", path, typ, b)
	return err
}

// parallel runs f(0..n-1) on w workers and returns the joined errors (at most a few).
func parallel(n, w int, f func(i int) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := 0
	for range min(w, n) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				mu.Lock()
				i := next
				next++
				stop := len(errs) > 5
				mu.Unlock()
				if i >= n || stop {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

type object struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
		OwnerReferences []struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Status struct {
		Conditions       []condition `json:"conditions"`
		ExpectedMachines *int        `json:"expectedMachines"`
		CurrentHealthy   *int        `json:"currentHealthy"`
	} `json:"status"`
}

type list struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []object `json:"items"`
}

func (c *client) list(path string) (*list, error) {
	b, err := c.must2xx("GET", path, "", nil)
	if err != nil {
		return nil, err
	}
	l := &list{}
	return l, json.Unmarshal(b, l)
}

// watch lists, then passes every later event to f until ctx ends. A stream that ends is resumed where it ended, because an
// API server with too much to do closes the watch that does not keep up; one that cannot be resumed is reported on errc.
func (c *client) watch(ctx context.Context, path string, errc chan<- error, f func(typ string, o *object, at time.Time)) error {
	l, err := c.list(path + "?limit=1")
	if err != nil {
		return err
	}
	version := l.Metadata.ResourceVersion
	body, err := c.stream(ctx, path, version)
	if err != nil {
		return err
	}
	go func() {
		for {
			version, err = follow(body, version, f)
			body.Close()
			if err == nil && ctx.Err() == nil {
				body, err = c.stream(ctx, path, version)
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				errc <- fmt.Errorf("watch %s: %w", path, err)
				return
			}
		}
	}()
	return nil
}

func (c *client) stream(ctx context.Context, path, version string) (io.ReadCloser, error) {
	resp, err := c.req(ctx, "GET", path+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=7200&resourceVersion="+version, "", nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != 200 {
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("%d %s", resp.StatusCode, b)
	}
	return resp.Body, nil
}

// follow passes the events of a stream to f until it ends, and returns the resourceVersion of the last one.
func follow(body io.Reader, version string, f func(typ string, o *object, at time.Time)) (string, error) {
	d := json.NewDecoder(body)
	for {
		var ev struct {
			Type   string `json:"type"`
			Object object `json:"object"`
		}
		if d.Decode(&ev) != nil {
			return version, nil
		}
		at := time.Now()
		if ev.Type == "ERROR" {
			return version, errors.New("its events from " + version + " on are gone")
		}
		version = ev.Object.Metadata.ResourceVersion
		if ev.Type != "BOOKMARK" {
			f(ev.Type, &ev.Object, at)
		}
	}
}

// apiCalls returns how many requests the controller under test has had dispatched, by way of its own FlowSchema.
func (c *client) apiCalls() float64 {
	b, err := c.must2xx("GET", "/metrics", "", nil)
	if err != nil {
		return -1
	}
	sum := 0.0
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "apiserver_flowcontrol_dispatched_requests_total{") && strings.Contains(l, `flow_schema="`+flowSchema+`"`) {
			if i := strings.LastIndexByte(l, ' '); i > 0 {
				if v, err := strconv.ParseFloat(l[i+1:], 64); err == nil {
					sum += v
				}
			}
		}
	}
	return sum
}
