// Package apikey holds the resource, the ephemeral resource and the data source of API keys. A secret
// leaves the API once, and never enters a state file: it goes into a file of the user, is encrypted to
// a key of the user, or lives for one run only.
package apikey

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/resourcevalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

const (
	nameMax = 100
	// timeLayout is RFC 3339 with milliseconds, as the API writes it.
	timeLayout  = "2006-01-02T15:04:05.000Z"
	roleDefault = "viewer"
)

type keyResource struct {
	session.Configured
}

// NewResource makes `millrace_api_key`.
func NewResource() resource.Resource { return &keyResource{} }

var (
	_ resource.ResourceWithConfigure        = &keyResource{}
	_ resource.ResourceWithImportState      = &keyResource{}
	_ resource.ResourceWithConfigValidators = &keyResource{}
	_ resource.ResourceWithModifyPlan       = &keyResource{}
)

type model struct {
	ID              types.String `tfsdk:"id"`
	Name            types.String `tfsdk:"name"`
	Role            types.String `tfsdk:"role"`
	ExpiresAt       types.String `tfsdk:"expires_at"`
	RotateWhen      types.Map    `tfsdk:"rotate_when"`
	SecretFile      types.String `tfsdk:"secret_file"`
	PublicKey       types.String `tfsdk:"public_key"`
	EncryptedSecret types.String `tfsdk:"encrypted_secret"`
	Hint            types.String `tfsdk:"hint"`
	CreatedAt       types.String `tfsdk:"created_at"`
}

func (m *model) take(key api.ApiKey) {
	m.ID = types.StringValue(key.Id)
	m.Name = types.StringValue(key.Name)
	m.Role = types.StringValue(string(key.Role))
	m.Hint = types.StringValue(key.Hint)
	m.CreatedAt = types.StringValue(key.CreatedAt.UTC().Format(timeLayout))
	m.ExpiresAt = sameTime(m.ExpiresAt, key.ExpiresAt)
}

// sameTime keeps the spelling of the configuration where it means the same moment.
func sameTime(written types.String, at *time.Time) types.String {
	if at == nil {
		return types.StringNull()
	}
	if parsed, err := time.Parse(time.RFC3339, written.ValueString()); err == nil && parsed.Equal(*at) {
		return written
	}
	return types.StringValue(at.UTC().Format(timeLayout))
}

func (r *keyResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_api_key"
}

func (r *keyResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.Take(req.ProviderData, &resp.Diagnostics)
}

func (r *keyResource) ConfigValidators(context.Context) []resource.ConfigValidator {
	return []resource.ConfigValidator{
		resourcevalidator.Conflicting(path.MatchRoot("secret_file"), path.MatchRoot("public_key")),
	}
}

func (r *keyResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	stays := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "An API key of the organization. Its secret is never in the state: it is written to `secret_file`, or encrypted to `public_key`. For a key that exists for one run only, use the ephemeral resource of the same name. A key cannot be changed: any changed value creates a new key. With `lifecycle { create_before_destroy = true }` the old one works until the new one exists.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{Computed: true, PlanModifiers: stays, MarkdownDescription: "The key's id (`key_…`)."},
			"name": schema.StringAttribute{
				Required: true, PlanModifiers: replaced, MarkdownDescription: "What it is for.",
				Validators: []validator.String{stringvalidator.LengthBetween(1, nameMax)},
			},
			"role": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: replaced, Default: stringdefault.StaticString(roleDefault),
				MarkdownDescription: "`owner`, `admin`, `operator`, `developer` or `viewer`, at most the role of the key that creates it; `viewer` by default.",
			},
			"expires_at": schema.StringAttribute{
				Optional: true, PlanModifiers: replaced, MarkdownDescription: "Expiry time, RFC 3339. Never by default.",
				Validators: []validator.String{isTime{}},
			},
			"rotate_when": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Arbitrary values; a change of any creates a new key.",
				PlanModifiers:       []planmodifier.Map{mapplanmodifier.RequiresReplace()},
			},
			"secret_file": schema.StringAttribute{
				Optional: true, PlanModifiers: replaced,
				MarkdownDescription: "A file to write the secret to, readable only by the current user (mode 0600). It must not exist. Destroying the key removes the file if it still holds that key. With `create_before_destroy`, each rotation needs another file: change the name together with `rotate_when`.",
			},
			"public_key": schema.StringAttribute{
				Optional: true, PlanModifiers: replaced, Validators: []validator.String{isPublicKey{}},
				MarkdownDescription: "An RSA public key (PEM, at least 2048 bits) that the secret is encrypted to.",
			},
			"encrypted_secret": schema.StringAttribute{
				Computed: true, PlanModifiers: stays,
				MarkdownDescription: "With `public_key`: the secret under RSA-OAEP with SHA-256 and the label `millrace api key`, in base64.",
			},
			"hint":       schema.StringAttribute{Computed: true, PlanModifiers: stays, MarkdownDescription: "The first characters of the secret, to tell keys apart."},
			"created_at": schema.StringAttribute{Computed: true, PlanModifiers: stays, MarkdownDescription: "When it was created: RFC 3339, UTC."},
		},
	}
}

// ModifyPlan refuses a rotation that would revoke the old key and then find no place for the new one.
func (r *keyResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var before, planned model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
		r.remember(before)
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() || planned.SecretFile.IsNull() || planned.SecretFile.IsUnknown() {
		return
	}
	if req.State.Raw.IsNull() {
		r.warnOfFile(planned.SecretFile.ValueString(), &resp.Diagnostics)
		return
	}
	if !isRotation(before, planned) {
		return
	}
	if err := checkRotation(planned.SecretFile.ValueString(), before.SecretFile.ValueString(), before.Hint.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("secret_file"), "The secret of the next key could not be written",
			err.Error()+". Nothing was revoked.")
	}
}

// remember keeps that the key's file holds it, and will go with it. Where Terraform replaces a key it asks
// for the plan of the next one as if there were none before.
func (r *keyResource) remember(known model) {
	file := known.SecretFile.ValueString()
	if r.Session == nil || file == "" {
		return
	}
	if holds, err := holdsKey(file, known.Hint.ValueString()); err == nil && holds {
		r.Session.SecretFiles.Store(file, true)
	}
}

// warnOfFile tells what would make the creation fail, unless it goes before.
func (r *keyResource) warnOfFile(file string, diags *diag.Diagnostics) {
	if r.Session != nil {
		if _, goes := r.Session.SecretFiles.Load(file); goes {
			return
		}
	}
	if err := checkFree(file); err != nil {
		diags.AddAttributeWarning(path.Root("secret_file"), "The secret cannot be written at present", err.Error()+".")
	}
}

// isRotation tells whether another key is planned: every attribute that a configuration writes makes one.
func isRotation(before, planned model) bool {
	return !before.Name.Equal(planned.Name) || !before.Role.Equal(planned.Role) || !before.ExpiresAt.Equal(planned.ExpiresAt) ||
		!before.RotateWhen.Equal(planned.RotateWhen) || !before.SecretFile.Equal(planned.SecretFile) || !before.PublicKey.Equal(planned.PublicKey)
}

func (r *keyResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !planned.SecretFile.IsNull() {
		if err := prepareFile(planned.SecretFile.ValueString()); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("secret_file"), "The secret cannot be written", err.Error())
			return
		}
	}
	key, err := create(ctx, r.Session, planned.Name.ValueString(), planned.Role.ValueString(), planned.ExpiresAt)
	if err != nil {
		session.Report(&resp.Diagnostics, "Creating API key "+planned.Name.ValueString(), err)
		return
	}
	planned.take(withoutSecret(key))
	planned.EncryptedSecret = types.StringNull()
	if err := planned.deliver(key.Secret); err != nil {
		// A key whose secret nobody has is of no use.
		undo := api.Done(r.Session.ApiKeyDelete(context.WithoutCancel(ctx), key.Id))
		resp.Diagnostics.AddError("The secret could not be written", fmt.Sprintf("%s. The key %s was revoked%s.", err, key.Id, failing(undo)))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
}

func failing(err error) string {
	if err == nil {
		return ""
	}
	return ", which failed: " + err.Error() + ". Revoke it in the console"
}

// deliver hands the secret to where the configuration wants it.
func (m *model) deliver(secret string) error {
	if !m.SecretFile.IsNull() {
		return writeFile(m.SecretFile.ValueString(), secret)
	}
	if m.PublicKey.IsNull() {
		return nil
	}
	key, err := parsePublicKey(m.PublicKey.ValueString())
	if err != nil {
		return err
	}
	sealed, err := seal(secret, key)
	m.EncryptedSecret = types.StringValue(sealed)
	return err
}

func (r *keyResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	key, err := api.Read[api.ApiKey](r.Session.ApiKeyGet(ctx, known.ID.ValueString()))
	if api.IsNotFound(err) {
		resp.State.RemoveResource(ctx)
		known.tellOfFile(&resp.Diagnostics)
		return
	}
	if err != nil {
		session.Report(&resp.Diagnostics, "Reading API key "+known.ID.ValueString(), err)
		return
	}
	known.take(*key)
	r.remember(known)
	resp.Diagnostics.Append(resp.State.Set(ctx, &known)...)
}

// tellOfFile says that the file of a key that is not found is still there. It is not removed: whoever asks
// with a key of another organization, or at another endpoint, is told the same of keys that are in use.
func (m *model) tellOfFile(diags *diag.Diagnostics) {
	file := m.SecretFile.ValueString()
	if file == "" {
		return
	}
	if holds, err := holdsKey(file, m.Hint.ValueString()); err != nil || !holds {
		return
	}
	diags.AddAttributeWarning(path.Root("secret_file"), "The file of an unknown API key was kept",
		fmt.Sprintf("The API knows no key %s: it was revoked, or belongs to another organization than the provider's own key. "+
			"Its secret is in %s. Remove that file once the key is really gone: it blocks the next key.", m.ID.ValueString(), file))
}

// Update never changes a key: every attribute that could change makes a new one.
func (r *keyResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

func (r *keyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	// A revocation whose answer was lost is not found when it is repeated; a key that was not there
	// before may be another organization's.
	_, err := api.Read[api.ApiKey](r.Session.ApiKeyGet(ctx, known.ID.ValueString()))
	if api.IsNotFound(err) {
		known.tellOfFile(&resp.Diagnostics)
		return
	}
	if err == nil {
		err = api.Done(r.Session.ApiKeyDelete(ctx, known.ID.ValueString()))
	}
	if err != nil && !api.IsNotFound(err) {
		session.Report(&resp.Diagnostics, "Revoking API key "+known.ID.ValueString(), err)
		return
	}
	if known.SecretFile.IsNull() {
		return
	}
	if err := removeFile(known.SecretFile.ValueString(), known.Hint.ValueString()); err != nil {
		session.Report(&resp.Diagnostics, "Removing the file of the revoked API key "+known.ID.ValueString(), err)
	}
}

// ImportState takes the key's id; its secret is not to be had any more.
func (r *keyResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
