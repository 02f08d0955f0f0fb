package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// answerBytesMax bounds what is read of one answer: a page of a thousand topics with all of their
// settings is a tenth of it.
const answerBytesMax = 64 << 20

// Failure is an answer of the API that says no: RFC 9457 problem details, or whatever a proxy on the
// way made of them.
type Failure struct {
	Status int
	Problem
}

// Error says what is wrong, which fields are meant, and what to do.
func (f *Failure) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s (%d %s)", f.Detail, f.Status, f.Code)
	for _, field := range f.Errors {
		fmt.Fprintf(&text, "\n  %s: %s", field.Pointer, field.Message)
	}
	if f.Remedy != nil {
		fmt.Fprintf(&text, "\n%s", *f.Remedy)
	}
	if f.RequestId != "" {
		fmt.Fprintf(&text, "\nRequest id: %s", f.RequestId)
	}
	return text.String()
}

// IsNotFound tells whether the API itself says that the resource does not exist. A bare 404 of a
// proxy, or of an endpoint that is no Millrace, does not count: nothing is dropped from a state for it.
func IsNotFound(err error) bool {
	return HasCode(err, "not_found")
}

// HasCode tells whether the API refused with one of the codes.
func HasCode(err error, codes ...string) bool {
	var failure *Failure
	if !errors.As(err, &failure) {
		return false
	}
	for _, code := range codes {
		if failure.Code == code {
			return true
		}
	}
	return false
}

// Read decodes an answer of the generated client: `api.Read[api.Cluster](client.ClusterGet(…))`. An
// answer other than 2xx becomes a [Failure]: a redirect is not followed, and is no success.
func Read[T any](response *http.Response, err error) (*T, error) {
	body, err := readAll(response, err)
	if err != nil {
		return nil, err
	}
	var value T
	if err := json.Unmarshal(body, &value); err != nil {
		return nil, fmt.Errorf("the answer of %s is not what this provider expects; use a provider of the product's version: %w",
			response.Request.URL.Path, err)
	}
	return &value, nil
}

// Done is [Read] for what answers 204. Anything else is not the API's word that it is done: JSON or a page
// of something on the way is no more than that.
func Done(response *http.Response, err error) error {
	body, err := readAll(response, err)
	if err != nil || response.StatusCode == http.StatusNoContent {
		return err
	}
	return failureOf(response, body)
}

func readAll(response *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", response.Request.URL.Path, err)
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return nil, failureOf(response, body)
	}
	return body, nil
}

func failureOf(response *http.Response, body []byte) *Failure {
	failure := &Failure{Status: response.StatusCode}
	isProblem := strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json")
	if isProblem && json.Unmarshal(body, &failure.Problem) == nil && failure.Code != "" {
		return failure
	}
	excerpt := strings.TrimSpace(string(body[:min(len(body), 200)]))
	failure.Code = "unknown"
	failure.Detail = fmt.Sprintf("%s %s answered %q, which is not an answer of Millrace: check the endpoint",
		response.Request.Method, response.Request.URL.Path, excerpt)
	return failure
}

// ReadText is [Read] for answers that are text of this media type.
func ReadText(mediaType string, response *http.Response, err error) (string, error) {
	body, err := readAll(response, err)
	if err != nil {
		return "", err
	}
	if got := response.Header.Get("Content-Type"); got != mediaType {
		return "", fmt.Errorf("the answer of %s is %q and not %s; use a provider of the product's version",
			response.Request.URL.Path, got, mediaType)
	}
	return string(body), nil
}
