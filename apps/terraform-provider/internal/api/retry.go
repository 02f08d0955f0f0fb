package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
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
	// inUseMax is how often a POST is repeated whose first sending is still at work. It is beyond the
	// other retries: the API holds a key for a minute after a crash, and asks for pauses of seconds.
	inUseMax = 60
	// inUseWait is between these repetitions where the API does not say.
	inUseWait = 2 * time.Second
)

// acceptTimeout is what the API has to accept what is made by a POST, retries included. It is longer
// than the minute for which the API holds the key of a request whose process died.
const acceptTimeout = 2 * time.Minute

// Sent tells what became of a request on its way.
type Sent struct {
	// first is when it was sent first.
	first time.Time
	// date is what the last answer says that the time is, and heard when that came.
	date, heard time.Time
	// reached: the API said that an earlier sending of it was at work.
	reached bool
}

// RanSince is the time, by the API's clock, before which the request cannot have been carried out. It is
// not ok unless the API itself said that an earlier sending had reached it: an answer that is lost, or
// that something on the way gave, does not show that anything was made.
func (s *Sent) RanSince() (since time.Time, ok bool) {
	if !s.reached || s.date.IsZero() {
		return time.Time{}, false
	}
	return s.date.Add(-s.heard.Sub(s.first)), true
}

// note keeps what an answer tells. The time of it is that of the API.
func (s *Sent) note(response *http.Response, reached bool, now time.Time) {
	s.reached = s.reached || reached
	s.date, s.heard = time.Time{}, now
	if response == nil {
		return
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		s.date = date
	}
}

type sentKey struct{}

// sentIn is what a request of [Accepting] carries; another one carries what nobody reads.
func sentIn(ctx context.Context, now time.Time) *Sent {
	sent, ok := ctx.Value(sentKey{}).(*Sent)
	if !ok {
		sent = &Sent{}
	}
	sent.first = now
	return sent
}

// Accepting is the context for one POST that makes something, which is seen through even where Terraform
// is told to stop: what was made and whose id is lost would be nobody's.
func Accepting(ctx context.Context) (context.Context, *Sent, context.CancelFunc) {
	sent := &Sent{}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), acceptTimeout)
	return context.WithValue(bounded, sentKey{}, sent), sent, cancel
}

// retrying sends a request again where that is safe and promises success: after 429, 502, 503 and 504,
// and after a connection that failed. A POST is sent again only with an Idempotency-Key, under which
// the API answers a repetition with the first answer, or says that the first is still at work.
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
	failures, inUse := 0, 0
	sent := sentIn(request.Context(), r.now())
	for {
		response, err := r.next.RoundTrip(request)
		if !mayRepeat(request) {
			return response, err
		}
		var wait time.Duration
		isAtWork := isInUse(response)
		sent.note(response, isAtWork, r.now())
		switch {
		case inUse < inUseMax && isAtWork:
			wait = r.asked(response, inUseWait)
			inUse++
		case failures < r.retries && promisesMore(request.Context(), response, err):
			wait = r.wait(failures, response)
			failures++
		default:
			return response, err
		}
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
	return r.asked(response, r.jitter(min(backoffFirst<<min(attempt, 16), backoffMax)))
}

// asked is what Retry-After asks for, else what is usual.
func (r *retrying) asked(response *http.Response, usual time.Duration) time.Duration {
	if response != nil {
		if asked, ok := retryAfter(response.Header.Get("Retry-After"), r.now()); ok {
			return min(asked, retryAfterMax)
		}
	}
	return usual
}

// isInUse tells whether the API says that the first sending of this request is still at work. The answer
// can be read again afterwards.
func isInUse(response *http.Response) bool {
	if response == nil || response.StatusCode != http.StatusConflict {
		return false
	}
	head, err := io.ReadAll(io.LimitReader(response.Body, drainBytesMax))
	rest := response.Body
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
	if err != nil {
		return false
	}
	var problem Problem
	return json.Unmarshal(head, &problem) == nil && problem.Code == "idempotency_key_in_use"
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
