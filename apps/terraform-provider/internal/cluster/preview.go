package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"

	"github.com/millrace/terraform-provider-millrace/internal/api"
)

const localRegion = "local"

// previewCreate asks the API what creating would do, so that what it refuses fails the plan and not the
// apply, and what it costs is told before. Nothing is asked while something is not known yet.
func (r *clusterResource) previewCreate(ctx context.Context, config tfsdk.Config, planned model, diags *diag.Diagnostics) {
	if r.Session == nil || !isKnown(ctx, config) {
		return
	}
	validateOnly := true
	params := &api.ClusterCreateParams{ValidateOnly: &validateOnly}
	preview, err := api.Read[api.ChangePreview](r.Session.ClusterCreateWithBody(ctx, params, "application/json", creation(planned).Reader()))
	if api.HasCode(err, nameTaken, "not_found") && isEnvironmentUnknown(ctx, config) {
		// The API answered for the organization's first environment, or has none yet. The cluster goes into another one.
		return
	}
	r.report(planned, preview, err, diags)
}

// previewUpdate asks the API what the plan's change would do.
func (r *clusterResource) previewUpdate(ctx context.Context, config tfsdk.Config, before, planned model, diags *diag.Diagnostics) {
	patch := patchOf(before, planned)
	if r.Session == nil || len(patch) == 0 || !isKnown(ctx, config) {
		return
	}
	validateOnly := true
	params := &api.ClusterUpdateParams{ValidateOnly: &validateOnly}
	preview, err := api.Read[api.ChangePreview](r.Session.ClusterUpdateWithBody(ctx, before.ID.ValueString(), params, api.MergePatch, patch.Reader()))
	r.report(planned, preview, err, diags)
}

// isKnown tells whether the configuration says everything that a request would: what the API fills in is
// left out of requests, while what waits for another resource cannot be asked about. The environment is
// an exception: all it decides is whether the name is taken.
func isKnown(ctx context.Context, config tfsdk.Config) bool {
	var written model
	if config.Get(ctx, &written).HasError() {
		return false
	}
	for _, value := range []attr.Value{
		written.Name, written.Region, written.Size, written.Labels, written.Brokers, written.Zones,
		written.Wal, written.Network, written.Storage, written.PlaintextListener,
	} {
		raw, err := value.ToTerraformValue(ctx)
		if err != nil || !raw.IsFullyKnown() {
			return false
		}
	}
	return true
}

// isEnvironmentUnknown tells whether another resource decides which environment the cluster goes into.
func isEnvironmentUnknown(ctx context.Context, config tfsdk.Config) bool {
	var written model
	return !config.Get(ctx, &written).HasError() && written.EnvironmentID.IsUnknown()
}

func (r *clusterResource) report(planned model, preview *api.ChangePreview, err error, diags *diag.Diagnostics) {
	var failure *api.Failure
	switch {
	case errors.As(err, &failure) && failure.Code == nameTaken:
		if !r.isInState(failure.ExistingId) {
			refuse(planned, err, diags)
			return
		}
		diags.AddAttributeWarning(path.Root("name"), "A cluster of this state has the name",
			fmt.Sprintf("Cluster %s is named %s now. The apply fails unless it first replaces, deletes or renames that cluster.",
				*failure.ExistingId, planned.Name.ValueString()))
		return
	case errors.As(err, &failure) && isRefusal(failure.Status):
		addRefusal(failure, diags)
		return
	case err != nil:
		diags.AddWarning("The change could not be previewed",
			fmt.Sprintf("Cluster %s is planned without validation by the API: %s", planned.Name.ValueString(), err))
		return
	}
	for _, finding := range preview.Policy {
		if finding.Severity == api.PolicyFindingSeverityError {
			diags.AddError("The plan violates a policy rule", fmt.Sprintf("%s (%s, rule %s)", finding.Message, finding.Address, finding.Rule))
		}
	}
	if planned.Region.ValueString() == localRegion {
		return
	}
	var text strings.Builder
	summary := preview.Plan.Summary
	fmt.Fprintf(&text, "Cluster %s: %d cloud resources to create, %d to change, %d to replace, %d to delete.",
		planned.Name.ValueString(), summary.Create, summary.Update, summary.Replace, summary.Delete)
	if preview.Cost != nil {
		fmt.Fprintf(&text, " Estimated at %.2f USD per month (list prices of %s, no offer).", preview.Cost.Total, preview.Cost.AsOf)
	}
	if preview.CostDelta != nil && *preview.CostDelta != 0 {
		fmt.Fprintf(&text, " That is %+.2f USD per month.", *preview.CostDelta)
	}
	for _, warning := range preview.Warnings {
		text.WriteString("\n" + warning)
	}
	diags.AddWarning("Effect of the change on AWS", text.String())
}

// isInState tells whether Terraform manages the cluster that has the name. A replacement is planned as a
// creation, while the cluster to be replaced still has the name; it is deleted before the other is created.
// A tainted cluster is only known after its refresh, so `-refresh=false` fails a plan that replaces it.
func (r *clusterResource) isInState(id *string) bool {
	if id == nil {
		return false
	}
	_, known := r.Session.Clusters.Load(*id)
	return known
}

// isRefusal tells whether the same request would be refused by an apply, too.
func isRefusal(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
}

// addRefusal puts each refused field where the configuration has it.
func addRefusal(failure *api.Failure, diags *diag.Diagnostics) {
	for _, field := range failure.Errors {
		parts := strings.Split(strings.TrimPrefix(field.Pointer, "/"), "/")
		at := path.Root(parts[0])
		if len(parts) > 1 {
			at = at.AtName(parts[1])
		}
		diags.AddAttributeError(at, "The API rejected the value", fmt.Sprintf("%s %s\n%s", strings.Join(parts, "."), field.Message, failure))
	}
	if len(failure.Errors) == 0 {
		diags.AddError("The API rejected the cluster", failure.Error())
	}
}
