package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// scripted answers requests one after the other, and keeps what it saw.
type scripted struct {
	mutex   sync.Mutex
	answers []func(http.ResponseWriter)
	bodies  []string
	keys    []string
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mutex.Lock()
	at := len(s.bodies)
	s.bodies = append(s.bodies, string(body))
	s.keys = append(s.keys, r.Header.Get(idempotencyKey))
	s.mutex.Unlock()
	s.answers[min(at, len(s.answers)-1)](w)
}

func status(code int, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for at := 0; at < len(headers); at += 2 {
			w.Header().Set(headers[at], headers[at+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"id":"env_1","name":"a","created_at":"2026-01-01T00:00:00Z"}`)
	}
}

func hangUp(w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

// waits notes what a client would have slept.
type waits struct{ slept []time.Duration }

func clientOf(t *testing.T, handler http.Handler, retries int) (*Client, *waits) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	noted := &waits{}
	retrying := newRetrying(http.DefaultTransport, retries)
	retrying.sleep = func(_ context.Context, wait time.Duration) error {
		noted.slept = append(noted.slept, wait)
		return nil
	}
	retrying.jitter = func(n time.Duration) time.Duration { return n }
	client, err := NewClient(server.URL, WithHTTPClient(&http.Client{Transport: retrying}),
		WithRequestEditorFn(headersOf(Settings{APIKey: "mrk_x"})))
	if err != nil {
		t.Fatal(err)
	}
	return client, noted
}

func TestRetriesWhatPromisesSuccess(t *testing.T) {
	for _, code := range []int{429, 502, 503, 504} {
		server := &scripted{answers: []func(http.ResponseWriter){status(code), status(code), status(200)}}
		client, noted := clientOf(t, server, 8)
		if _, err := Read[Environment](client.EnvironmentGet(context.Background(), "env_1")); err != nil {
			t.Errorf("%d: %v", code, err)
		}
		if want := []time.Duration{backoffFirst, 2 * backoffFirst}; !slices.Equal(noted.slept, want) {
			t.Errorf("%d: slept %v, want %v", code, noted.slept, want)
		}
	}
}

func TestRetriesALostConnectionAndARepeatedPostHasTheSameKeyAndBody(t *testing.T) {
	server := &scripted{answers: []func(http.ResponseWriter){hangUp, status(503), status(201)}}
	client, _ := clientOf(t, server, 8)
	environment, err := Read[Environment](client.EnvironmentCreate(context.Background(), nil, EnvironmentCreateJSONRequestBody{Name: "a"}))
	if err != nil || environment.Id != "env_1" {
		t.Fatal(environment, err)
	}
	if len(server.bodies) != 3 {
		t.Fatalf("%d requests, want 3", len(server.bodies))
	}
	for at := range server.bodies {
		if server.bodies[at] != `{"name":"a"}` || server.keys[at] == "" || server.keys[at] != server.keys[0] {
			t.Errorf("attempt %d: body %q, key %q (first %q)", at, server.bodies[at], server.keys[at], server.keys[0])
		}
	}
}

func TestEveryPostHasAKeyOfItsOwn(t *testing.T) {
	server := &scripted{answers: []func(http.ResponseWriter){status(201)}}
	client, _ := clientOf(t, server, 0)
	for range 2 {
		if _, err := Read[Environment](client.EnvironmentCreate(context.Background(), nil, EnvironmentCreateJSONRequestBody{Name: "a"})); err != nil {
			t.Fatal(err)
		}
	}
	if server.keys[0] == "" || server.keys[0] == server.keys[1] {
		t.Errorf("keys %q", server.keys)
	}
}

func TestDoesNotRetryWhatStaysRefused(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 409, 412, 422, 500} {
		server := &scripted{answers: []func(http.ResponseWriter){status(code)}}
		client, noted := clientOf(t, server, 8)
		if _, err := Read[Environment](client.EnvironmentGet(context.Background(), "env_1")); err == nil {
			t.Errorf("%d is no error", code)
		}
		if len(server.bodies) != 1 || len(noted.slept) != 0 {
			t.Errorf("%d: %d requests", code, len(server.bodies))
		}
	}
}

func TestEndsAfterTheLastRetry(t *testing.T) {
	server := &scripted{answers: []func(http.ResponseWriter){status(503)}}
	client, noted := clientOf(t, server, 3)
	_, err := Read[Environment](client.EnvironmentGet(context.Background(), "env_1"))
	var failure *Failure
	if !errors.As(err, &failure) || failure.Status != 503 {
		t.Fatal(err)
	}
	if len(server.bodies) != 4 || len(noted.slept) != 3 {
		t.Errorf("%d requests, %d waits", len(server.bodies), len(noted.slept))
	}
}

func TestHonoursRetryAfter(t *testing.T) {
	soon := time.Now().Add(90 * time.Second).UTC()
	for value, want := range map[string][2]time.Duration{
		"7":                          {7 * time.Second, 7 * time.Second},
		"0":                          {0, 0},
		soon.Format(http.TimeFormat): {85 * time.Second, 90 * time.Second},
		"86400":                      {retryAfterMax, retryAfterMax},
		"nonsense":                   {backoffFirst, backoffFirst},
		"-5":                         {backoffFirst, backoffFirst},
	} {
		server := &scripted{answers: []func(http.ResponseWriter){status(429, "Retry-After", value), status(200)}}
		client, noted := clientOf(t, server, 8)
		if _, err := Read[Environment](client.EnvironmentGet(context.Background(), "env_1")); err != nil {
			t.Fatal(err)
		}
		if len(noted.slept) != 1 || noted.slept[0] < want[0] || noted.slept[0] > want[1] {
			t.Errorf("Retry-After: %s: slept %v, want %v", value, noted.slept, want)
		}
	}
}

func TestBackoffIsBoundedAndDrawnFromZero(t *testing.T) {
	retrying := newRetrying(http.DefaultTransport, 8)
	var largest time.Duration
	for range 1000 {
		for attempt := range 40 {
			wait := retrying.wait(attempt, nil)
			if wait < 0 || wait > backoffMax {
				t.Fatalf("attempt %d waits %v", attempt, wait)
			}
			largest = max(largest, wait)
		}
	}
	if largest < backoffMax/2 {
		t.Errorf("never waits long: %v", largest)
	}
}

func TestStopsWaitingWhenInterrupted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(503)
	}))
	t.Cleanup(server.Close)
	client, err := Connect(Settings{Endpoint: server.URL, APIKey: "mrk_x", MaxRetries: 8, RequestsPerSecond: 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := Read[Environment](client.EnvironmentGet(ctx, "env_1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestPacesRequests(t *testing.T) {
	server := &scripted{answers: []func(http.ResponseWriter){status(200)}}
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	client, err := Connect(Settings{Endpoint: listener.URL, APIKey: "mrk_x", RequestsPerSecond: 20})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() { _, _ = Read[Environment](client.EnvironmentGet(context.Background(), "env_1")) })
	}
	all.Wait()
	// A second's worth at once, the rest at the pace.
	if took := time.Since(begun); took < 900*time.Millisecond || took > 10*time.Second {
		t.Errorf("40 requests at 20 per second took %v", took)
	}
}

func TestRefusesToSendTheKeyInClearText(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://api.example.com":       "use https",
		"http://10.0.0.1:4000":         "use https",
		"ftp://localhost":              "no URL",
		"api.example.com":              "no URL",
		"":                             "no URL",
		"https://key@api.example.com":  "scheme, host and port alone",
		"https://api.example.com/v1":   "scheme, host and port alone",
		"https://api.example.com?a=b":  "scheme, host and port alone",
		"https://api.example.com":      "",
		"https://api.example.com/":     "",
		"http://localhost:4000":        "",
		"http://127.0.0.1:4000":        "",
		"http://[::1]:4000":            "",
		"http://localhost.example.com": "use https",
	} {
		_, err := Connect(Settings{Endpoint: endpoint, APIKey: "mrk_x", RequestsPerSecond: 1})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", endpoint, err, want)
		}
	}
}

const inUse = `{"type":"t","title":"t","status":409,"detail":"The first request is still running.","instance":"/","code":"idempotency_key_in_use","request_id":"r","retryable":true,"errors":[]}`

// The API holds the key of a request whose process died for a minute: longer than other retries last.
func TestWaitsForTheFirstSendingOfAPost(t *testing.T) {
	busy := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3")
		problem(409, "application/problem+json", inUse)(w)
	}
	answers := []func(http.ResponseWriter){hangUp}
	for range 25 {
		answers = append(answers, busy)
	}
	server := &scripted{answers: append(answers, status(201))}
	client, noted := clientOf(t, server, 2)
	ctx, sent, cancel := Accepting(context.Background())
	defer cancel()
	if _, err := Read[Environment](client.EnvironmentCreate(ctx, nil, EnvironmentCreateJSONRequestBody{Name: "a"})); err != nil {
		t.Fatal(err)
	}
	if _, mayBe := sent.RanSince(); !mayBe {
		t.Error("it was not noted that the first sending had reached the API")
	}
	var waited time.Duration
	for _, wait := range noted.slept[1:] {
		waited += wait
	}
	if waited != 75*time.Second || slices.Contains(server.keys, "") || len(slices.Compact(server.keys)) != 1 {
		t.Errorf("waited %v with the keys %v", waited, server.keys)
	}
}

// Another conflict is an answer, and can still be read after it was looked at.
func TestAConflictIsNotRepeated(t *testing.T) {
	taken := strings.ReplaceAll(inUse, "idempotency_key_in_use", "cluster_name_taken")
	server := &scripted{answers: []func(http.ResponseWriter){problem(409, "application/problem+json", taken)}}
	client, _ := clientOf(t, server, 8)
	ctx, sent, cancel := Accepting(context.Background())
	defer cancel()
	_, err := Read[Environment](client.EnvironmentCreate(ctx, nil, EnvironmentCreateJSONRequestBody{Name: "a"}))
	if _, mayBe := sent.RanSince(); !HasCode(err, "cluster_name_taken") || len(server.bodies) != 1 || mayBe {
		t.Errorf("%v after %d requests", err, len(server.bodies))
	}
}

// A connection that is refused or lost, and whatever stands before the API, do not show that a request
// got there: what exists then was made by somebody else.
func TestOnlyTheAPIItselfSaysThatARequestMayHaveRun(t *testing.T) {
	for name, first := range map[string]func(http.ResponseWriter){
		"turned away for its pace": status(429), "a gateway without a target": status(502),
		"a gateway that rests": status(503), "a gateway that waited": status(504), "a lost connection": hangUp,
	} {
		server := &scripted{answers: []func(http.ResponseWriter){first, status(201)}}
		client, _ := clientOf(t, server, 8)
		ctx, sent, cancel := Accepting(context.Background())
		_, err := Read[Environment](client.EnvironmentCreate(ctx, nil, EnvironmentCreateJSONRequestBody{Name: "a"}))
		if since, mayBe := sent.RanSince(); err != nil || mayBe || len(server.bodies) != 2 {
			t.Errorf("%s: %v, since %v after %d requests", name, err, since, len(server.bodies))
		}
		cancel()
	}
}

func TestARefusedConnectionIsNoSending(t *testing.T) {
	server := httptest.NewServer(&scripted{})
	endpoint := server.URL
	server.Close()
	retrying := newRetrying(http.DefaultTransport, 2)
	retrying.sleep = func(context.Context, time.Duration) error { return nil }
	ctx, sent, cancel := Accepting(context.Background())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(idempotencyKey, "k")
	_, err = retrying.RoundTrip(request)
	if _, mayBe := sent.RanSince(); err == nil || mayBe {
		t.Errorf("%v, %v", err, mayBe)
	}
}

// The machine's clock does not matter: what it measures is how long ago the first sending was.
func TestTheFirstSendingIsTimedByTheAPIsClock(t *testing.T) {
	now := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	there := time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)
	busy := func(w http.ResponseWriter) {
		w.Header().Set("Date", there.Format(http.TimeFormat))
		problem(409, "application/problem+json", inUse)(w)
	}
	for name, each := range map[string]struct {
		last func(http.ResponseWriter)
		want time.Time
	}{
		"with a date":    {status(201, "Date", there.Add(42*time.Second).Format(http.TimeFormat)), there.Add(2 * time.Second)},
		"without a date": {status(201, "Date", "?"), time.Time{}},
	} {
		server := httptest.NewServer(&scripted{answers: []func(http.ResponseWriter){busy, each.last}})
		t.Cleanup(server.Close)
		retrying := newRetrying(http.DefaultTransport, 2)
		at := now
		retrying.now = func() time.Time { return at }
		retrying.sleep = func(context.Context, time.Duration) error { at = at.Add(40 * time.Second); return nil }
		ctx, sent, cancel := Accepting(context.Background())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(idempotencyKey, "k")
		response, err := retrying.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if since, mayBe := sent.RanSince(); mayBe == each.want.IsZero() || !since.Equal(each.want) {
			t.Errorf("%s: %v, %v; want %v", name, since, mayBe, each.want)
		}
		cancel()
	}
}

func TestAcceptingOutlivesTheInterruptAndTheAPIsLock(t *testing.T) {
	interrupted, interrupt := context.WithCancel(context.Background())
	ctx, _, cancel := Accepting(interrupted)
	defer cancel()
	interrupt()
	deadline, _ := ctx.Deadline()
	if ctx.Err() != nil || time.Until(deadline) < 90*time.Second {
		t.Errorf("%v, until %v", ctx.Err(), deadline)
	}
}
