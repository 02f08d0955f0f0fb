// Package session is what one configured provider shares among its resources: the client, and lists
// that are read once for many of them.
package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

// Session belongs to one run of Terraform against one organization.
type Session struct {
	*api.Client
	Topics *Topics
	// SecretFiles are the paths of files that hold an API key of the state, and go with it.
	SecretFiles sync.Map
	// Clusters are the ids of the state's clusters that this run has read or planned so far.
	Clusters sync.Map
}

// New makes the session of a provider block.
func New(client *api.Client) *Session {
	return &Session{Client: client, Topics: newTopics(client)}
}

// Configured is embedded by resources and data sources: it keeps the session that the provider made.
type Configured struct {
	Session *Session
}

// Take keeps the session. Terraform validates a configuration before there is one: `data` is nil then.
func (c *Configured) Take(data any, diags *diag.Diagnostics) {
	if data == nil {
		return
	}
	session, ok := data.(*Session)
	if !ok {
		diags.AddError("Unexpected provider data", fmt.Sprintf("Expected *session.Session, got %T. This is a bug in the provider; please report it.", data))
		return
	}
	c.Session = session
}

// Report turns an error into a diagnostic.
func Report(diags *diag.Diagnostics, doing string, err error) {
	if err != nil {
		diags.AddError(doing+" failed", err.Error())
	}
}

// IsInterrupted tells whether the caller stopped waiting (Ctrl-C or a timeout of the configuration),
// as opposed to an answer of the API.
func IsInterrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
