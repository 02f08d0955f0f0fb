package api

import (
	"bytes"
	"encoding/json"
	"io"
)

// MergePatch is the media type of a [Patch].
const MergePatch = "application/merge-patch+json"

// Patch is a change as RFC 7396 writes it: what is absent stays, nil is the default again. The types
// of the generated client cannot tell those two apart.
type Patch map[string]any

// Reader is the patch as a body that can be sent again.
func (p Patch) Reader() io.Reader {
	// What provider code puts into a patch are strings, numbers, truth values and maps of these.
	body, err := json.Marshal(p)
	if err != nil {
		panic("a patch is always JSON: " + err.Error())
	}
	return bytes.NewReader(body)
}
