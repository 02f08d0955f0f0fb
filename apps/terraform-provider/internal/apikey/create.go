package apikey

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

func create(ctx context.Context, session *session.Session, name, role string, expiresAt types.String) (*api.ApiKeyWithSecret, error) {
	ctx, _, cancel := api.Accepting(ctx)
	defer cancel()
	wanted := api.ApiKeyCreateRequestRole(role)
	body := api.ApiKeyCreateJSONRequestBody{Name: name, Role: &wanted}
	if !expiresAt.IsNull() {
		at, err := time.Parse(time.RFC3339, expiresAt.ValueString())
		if err != nil {
			return nil, err
		}
		at = at.UTC()
		body.ExpiresAt = &at
	}
	key, err := api.Read[api.ApiKeyWithSecret](session.ApiKeyCreate(ctx, nil, body))
	if api.HasCode(err, "idempotent_answer_not_kept") {
		return nil, fmt.Errorf("the key was made, but the answer with its secret was lost on the way: revoke the newest key named %q in the console, and apply again: %w", name, err)
	}
	return key, err
}

func withoutSecret(key *api.ApiKeyWithSecret) api.ApiKey {
	return api.ApiKey{
		Id: key.Id, Name: key.Name, Role: api.ApiKeyRole(key.Role), Hint: key.Hint,
		CreatedAt: key.CreatedAt, ExpiresAt: key.ExpiresAt, LastUsedAt: key.LastUsedAt,
	}
}

// isTime validates a moment of RFC 3339.
type isTime struct{}

func (isTime) Description(context.Context) string { return "a time of RFC 3339" }

func (v isTime) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (isTime) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := time.Parse(time.RFC3339, req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid time", "Use RFC 3339, for example 2030-01-31T00:00:00Z.")
	}
}

// isPublicKey validates a key that secrets can be encrypted to.
type isPublicKey struct{}

func (isPublicKey) Description(context.Context) string { return "an RSA public key in PEM" }

func (v isPublicKey) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (isPublicKey) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := parsePublicKey(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "This key cannot be used", err.Error())
	}
}
