package api

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func answer(status int, mediaType, body string) *http.Response {
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{"Content-Type": {mediaType}},
		Body:       io.NopCloser(strings.NewReader(body)),
		Request:    &http.Request{URL: &url.URL{Path: "/v1/clusters/clu_a/ca-certificate"}},
	}
}

func TestATextIsReadAndAPageOfSomethingElseIsNot(t *testing.T) {
	const pem = "application/x-pem-file"
	if text, err := ReadText(pem, answer(200, pem, "PEM"), nil); err != nil || text != "PEM" {
		t.Fatalf("%q, %v", text, err)
	}
	for _, wrong := range []*http.Response{
		answer(200, "text/html", "<html>"),
		answer(422, "application/problem+json", `{"code":"not_supported","detail":"no","status":422}`),
	} {
		if text, err := ReadText(pem, wrong, nil); err == nil || text != "" {
			t.Fatalf("status %d was read as %q", wrong.StatusCode, text)
		}
	}
}
