package apikey

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

// ephemeralLife is how long a key works that nobody revoked since its run died: longer than any apply.
const ephemeralLife = 12 * time.Hour

// idKey names the key's id in what Terraform keeps between open and close.
const idKey = "id"

type ephemeralKey struct {
	session.Configured
}

// NewEphemeralResource makes the ephemeral resource `millrace_api_key`.
func NewEphemeralResource() ephemeral.EphemeralResource { return &ephemeralKey{} }

var (
	_ ephemeral.EphemeralResourceWithConfigure = &ephemeralKey{}
	_ ephemeral.EphemeralResourceWithClose     = &ephemeralKey{}
)

type ephemeralModel struct {
	ID        types.String `tfsdk:"id"`
	Name      types.String `tfsdk:"name"`
	Role      types.String `tfsdk:"role"`
	ExpiresAt types.String `tfsdk:"expires_at"`
	Secret    types.String `tfsdk:"secret"`
}

func (e *ephemeralKey) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_api_key"
}

func (e *ephemeralKey) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	e.Take(req.ProviderData, &resp.Diagnostics)
}

func (e *ephemeralKey) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "An API key for one run: created on demand, and revoked at the end of the run. Its secret is in neither state nor plan.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, MarkdownDescription: "What it is for.",
				Validators: []validator.String{stringvalidator.LengthBetween(1, nameMax)},
			},
			"role": schema.StringAttribute{
				Optional: true, MarkdownDescription: "What it may do; `viewer` by default.",
			},
			"expires_at": schema.StringAttribute{
				Optional: true, Computed: true, Validators: []validator.String{isTime{}},
				MarkdownDescription: "Expiry time, RFC 3339, in case the run dies before it revokes the key. Twelve hours after its creation by default.",
			},
			"id":     schema.StringAttribute{Computed: true, MarkdownDescription: "The key's id."},
			"secret": schema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: "The key itself (`mrk_…`)."},
		},
	}
}

func (e *ephemeralKey) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var asked ephemeralModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &asked)...)
	if resp.Diagnostics.HasError() {
		return
	}
	role := roleDefault
	if !asked.Role.IsNull() {
		role = asked.Role.ValueString()
	}
	if asked.ExpiresAt.IsNull() {
		asked.ExpiresAt = types.StringValue(time.Now().UTC().Add(ephemeralLife).Format(timeLayout))
	}
	key, err := create(ctx, e.Session, asked.Name.ValueString(), role, asked.ExpiresAt)
	if err != nil {
		session.Report(&resp.Diagnostics, "Creating API key "+asked.Name.ValueString(), err)
		return
	}
	asked.ID, asked.Secret = types.StringValue(key.Id), types.StringValue(key.Secret)
	resp.Diagnostics.Append(resp.Result.Set(ctx, &asked)...)
	id, err := json.Marshal(key.Id)
	if err != nil {
		session.Report(&resp.Diagnostics, "Keeping the id of API key "+key.Id, err)
		return
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, idKey, id)...)
}

func (e *ephemeralKey) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	kept, diags := req.Private.GetKey(ctx, idKey)
	resp.Diagnostics.Append(diags...)
	var id string
	if len(kept) == 0 || json.Unmarshal(kept, &id) != nil {
		return
	}
	if err := api.Done(e.Session.ApiKeyDelete(context.WithoutCancel(ctx), id)); err != nil && !api.IsNotFound(err) {
		session.Report(&resp.Diagnostics, "Revoking API key "+id, err)
	}
}
