// Package api is the way to the REST API: the client that is generated from its OpenAPI document, and
// around it what every caller needs: pacing, retries, errors, the polling of operations.
package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const (
	// idempotencyKey makes a POST safe to repeat for 24 hours.
	idempotencyKey = "Idempotency-Key"
	// answerSeconds is how long one answer may take: longer than the longest long poll (55 s).
	answerTimeout = 90 * time.Second
	dialTimeout   = 10 * time.Second
	// connectionsMax at a time to the API; Terraform works on ten resources at once.
	connectionsMax = 16
)

// Settings of a connection to the API.
type Settings struct {
	// Endpoint is the API's base URL. TLS is required unless it is on this machine.
	Endpoint string
	APIKey   string
	// UserAgent names provider, Terraform and their versions in the API's logs.
	UserAgent string
	// MaxRetries of one request after the first attempt.
	MaxRetries int
	// RequestsPerSecond on average; a second's worth may come at once.
	RequestsPerSecond int
}

// Connect checks the settings and makes the client; nothing is sent yet.
func Connect(settings Settings) (*Client, error) {
	endpoint, err := checkEndpoint(settings.Endpoint)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: connectionsMax,
		MaxConnsPerHost:     connectionsMax,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: dialTimeout,
		// The answer's head; a long poll sends nothing before it is over.
		ResponseHeaderTimeout: answerTimeout,
	}
	paced := &paced{next: transport, limiter: limiterOf(settings.RequestsPerSecond)}
	doer := &http.Client{
		Transport: newRetrying(paced, settings.MaxRetries),
		// A redirect would send the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return NewClient(endpoint, WithHTTPClient(doer), WithRequestEditorFn(headersOf(settings)))
}

// checkEndpoint refuses what would send the key in clear text over a network.
func checkEndpoint(endpoint string) (string, error) {
	parsed, err := url.Parse(endpoint)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "https" && parsed.Scheme != "http") {
		return "", fmt.Errorf("the endpoint %q is no URL like https://api.example.com", endpoint)
	}
	if parsed.Scheme == "http" && !isLoopback(parsed.Hostname()) {
		return "", fmt.Errorf("the endpoint %q would send the API key in clear text: use https (http is for this machine alone)", endpoint)
	}
	hasPath := parsed.Path != "" && parsed.Path != "/"
	if parsed.User != nil || hasPath || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", fmt.Errorf("the endpoint must be scheme, host and port alone; the key belongs into api_key")
	}
	return strings.TrimRight(endpoint, "/"), nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func headersOf(settings Settings) RequestEditorFn {
	return func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+settings.APIKey)
		request.Header.Set("User-Agent", settings.UserAgent)
		request.Header.Set("Accept", "application/json, application/problem+json")
		if request.Method == http.MethodPost && request.Header.Get(idempotencyKey) == "" {
			request.Header.Set(idempotencyKey, rand.Text())
		}
		return nil
	}
}

// paced delays requests so that a plan of thousands of resources does not run into the API's limits.
type paced struct {
	next    http.RoundTripper
	limiter *rate.Limiter
}

func limiterOf(perSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), perSecond)
}

func (p *paced) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := p.limiter.Wait(request.Context()); err != nil {
		return nil, err
	}
	return p.next.RoundTrip(request)
}
