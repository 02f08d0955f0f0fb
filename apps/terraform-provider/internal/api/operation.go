package api

import (
	"context"
	"fmt"
	"strings"
)

// longPoll is how long the API may hold one question about an operation.
const longPoll = "30s"

// WorkFailed is a long work that ended badly; the resource is still there.
type WorkFailed struct {
	Operation *Operation
}

func (f *WorkFailed) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "operation %s (%s) ended as %s", f.Operation.Id, f.Operation.Kind, f.Operation.Phase)
	if failure := f.Operation.Error; failure != nil {
		fmt.Fprintf(&text, ": %s (%s)", failure.Message, failure.Code)
		if failure.Step != nil {
			fmt.Fprintf(&text, ", in step %s", *failure.Step)
		}
	}
	return text.String()
}

// Wait returns once the operation is done, asking by long polls.
//
// It fails with [WorkFailed] where the operation did, and with the context's error where the
// caller was interrupted or ran out of time: the operation then goes on by itself.
func Wait(ctx context.Context, client *Client, operationID string) (*Operation, error) {
	wait := longPoll
	for {
		operation, err := Read[Operation](client.OperationGet(ctx, operationID, &OperationGetParams{Wait: &wait}))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if !operation.Done {
			continue
		}
		if operation.Phase != "SUCCEEDED" {
			return operation, &WorkFailed{Operation: operation}
		}
		return operation, nil
	}
}
