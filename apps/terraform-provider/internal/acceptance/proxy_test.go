//go:build acceptance

package acceptance

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy stands between Terraform and the API: it counts, holds, and fails as a network does. What it
// lets through is answered by the real API.
type proxy struct {
	*httptest.Server
	mutex sync.Mutex
	seen  []call
	// refuse decides on a request: 0 lets it through.
	refuse func(*http.Request) (status int, mediaType, body string)
	// lose decides whether the API answers and Terraform never hears it.
	lose func(*http.Request) bool
}

// call is a request and how long its answer took.
type call struct {
	method, path string
	status       int
	took         time.Duration
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	target, err := url.Parse(running.APIURL)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		noted := &noting{ResponseWriter: w, status: http.StatusOK}
		if status, mediaType, body := p.refusal(r); status != 0 {
			noted.Header().Set("Content-Type", mediaType)
			noted.WriteHeader(status)
			_, _ = noted.Write([]byte(body))
		} else if p.loses(r) {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		} else {
			forward.ServeHTTP(noted, r)
		}
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.seen = append(p.seen, call{r.Method, r.URL.RequestURI(), noted.status, time.Since(begun)})
	}))
	t.Cleanup(p.Server.Close)
	return p
}

func (p *proxy) refusal(r *http.Request) (int, string, string) {
	p.mutex.Lock()
	refuse := p.refuse
	p.mutex.Unlock()
	if refuse == nil {
		return 0, "", ""
	}
	return refuse(r)
}

func (p *proxy) loses(r *http.Request) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.lose != nil && p.lose(r)
}

func (p *proxy) setRefuse(refuse func(*http.Request) (int, string, string)) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.refuse = refuse
}

// calls with the method whose path begins so; what only asks for an opinion does not count.
func (p *proxy) calls(method, prefix string) []call {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var found []call
	for _, each := range p.seen {
		if each.method == method && strings.HasPrefix(each.path, prefix) && !strings.Contains(each.path, "validate_only=true") {
			found = append(found, each)
		}
	}
	return found
}

func (p *proxy) forget() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.seen = nil
}

// noting keeps the status that was written.
type noting struct {
	http.ResponseWriter
	status int
}

func (n *noting) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }
