package api

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	// backoffFirst is the upper end of the first wait; each next one doubles it.
	backoffFirst = 500 * time.Millisecond
	// backoffMax keeps the eighth retry within a long poll's length of the seventh.
	backoffMax = 30 * time.Second
	// retryAfterMax bounds what a server can ask for: beyond it an error is of more use.
	retryAfterMax = 5 * time.Minute
	// drainBytesMax of a refused answer are read so that its connection can be used again.
	drainBytesMax = 64 << 10
)

// retrying sends a request again where that is safe and promises success: after 429, 502, 503 and 504,
// and after a connection that failed. A POST is sent again only with an Idempotency-Key, under which
// the API answers a repetition with the first answer.
type retrying struct {
	next    http.RoundTripper
	retries int
	// sleep waits, or returns the context's error.
	sleep func(context.Context, time.Duration) error
	// jitter draws from [0, n): full jitter, so that many clients do not come back at once.
	jitter func(n time.Duration) time.Duration
	now    func() time.Time
}

func newRetrying(next http.RoundTripper, retries int) *retrying {
	return &retrying{
		next:    next,
		retries: retries,
		sleep:   sleep,
		jitter:  func(n time.Duration) time.Duration { return rand.N(n) },
		now:     time.Now,
	}
}

func (r *retrying) RoundTrip(request *http.Request) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		response, err := r.next.RoundTrip(request)
		if attempt >= r.retries || !mayRepeat(request) || !promisesMore(request.Context(), response, err) {
			return response, err
		}
		wait := r.wait(attempt, response)
		if response != nil {
			_, _ = io.CopyN(io.Discard, response.Body, drainBytesMax)
			_ = response.Body.Close()
		}
		if err := r.sleep(request.Context(), wait); err != nil {
			return nil, err
		}
		if request, err = again(request); err != nil {
			return nil, err
		}
	}
}

// wait is what Retry-After asks for, else a random part of a doubling bound.
func (r *retrying) wait(attempt int, response *http.Response) time.Duration {
	if response != nil {
		if asked, ok := retryAfter(response.Header.Get("Retry-After"), r.now()); ok {
			return min(asked, retryAfterMax)
		}
	}
	return r.jitter(min(backoffFirst<<min(attempt, 16), backoffMax))
}

// retryAfter reads both forms of RFC 9110, 10.2.3: seconds and a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}

func mayRepeat(request *http.Request) bool {
	if request.Body != nil && request.Body != http.NoBody && request.GetBody == nil {
		return false
	}
	return request.Method != http.MethodPost || request.Header.Get(idempotencyKey) != ""
}

func promisesMore(ctx context.Context, response *http.Response, err error) bool {
	if err != nil {
		var untrusted *tls.CertificateVerificationError
		return ctx.Err() == nil && !errors.As(err, &untrusted)
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// again is the same request with its body from the beginning.
func again(request *http.Request) (*http.Request, error) {
	copied := request.Clone(request.Context())
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		copied.Body = body
	}
	return copied, nil
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
