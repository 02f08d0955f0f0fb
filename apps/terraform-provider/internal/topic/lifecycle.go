package topic

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/cluster"
)

func (r *topicResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var planned model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	clusterID := planned.ClusterID.ValueString()
	partitions := int(planned.Partitions.ValueInt64())
	configs := map[string]*string{}
	for name, value := range settings(planned.Configs) {
		configs[name] = &value
	}
	body := api.TopicCreateJSONRequestBody{Name: planned.Name.ValueString(), Partitions: &partitions, Configs: &configs}
	topic, err := r.write(ctx, clusterID, func(ctx context.Context) (*api.Topic, error) {
		ctx, _, cancel := api.Accepting(ctx)
		defer cancel()
		return api.Read[api.Topic](r.Session.TopicCreate(ctx, clusterID, nil, body))
	})
	if api.HasCode(err, "topic_name_taken") {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "The topic already exists",
			fmt.Sprintf("Cluster %s has a topic %s that this configuration did not create. To manage it, import it: terraform import <address> %s",
				clusterID, body.Name, topicID(clusterID, body.Name)))
		return
	}
	if err != nil {
		resp.Diagnostics.AddError("Creating topic "+body.Name+" failed", err.Error())
		return
	}
	wanted := planned.Configs
	planned.take(topic)
	planned.Configs = wanted
	resp.Diagnostics.Append(resp.State.Set(context.WithoutCancel(ctx), &planned)...)
}

func (r *topicResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	topic, err := r.Session.Topics.Get(ctx, known.ClusterID.ValueString(), known.Name.ValueString())
	if api.IsNotFound(err) || (err == nil && topic == nil) {
		resp.State.RemoveResource(ctx)
		return
	}
	if api.HasCode(err, "cluster_not_ready") {
		// A paused cluster has no broker to ask; its topics are kept, and so is what we know of them.
		resp.Diagnostics.AddWarning("The topic was not refreshed",
			fmt.Sprintf("Topic %s is shown as it was last seen: %s", known.ID.ValueString(), err))
		return
	}
	if err != nil {
		resp.Diagnostics.AddError("Reading topic "+known.ID.ValueString()+" failed", err.Error())
		return
	}
	known.take(topic)
	resp.Diagnostics.Append(resp.State.Set(ctx, &known)...)
}

func (r *topicResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var before, planned model
	resp.Diagnostics.Append(req.State.Get(ctx, &before)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	patch := patchOf(before, planned)
	if len(patch) == 0 {
		// Only what Terraform alone knows has changed.
		resp.Diagnostics.Append(resp.State.Set(ctx, &planned)...)
		return
	}
	clusterID, name := planned.ClusterID.ValueString(), planned.Name.ValueString()
	topic, err := r.write(ctx, clusterID, func(ctx context.Context) (*api.Topic, error) {
		return api.Read[api.Topic](r.Session.TopicUpdateWithBody(ctx, clusterID, name, nil, api.MergePatch, patch.Reader()))
	})
	if err != nil {
		resp.Diagnostics.AddError("Changing topic "+planned.ID.ValueString()+" failed", err.Error())
		return
	}
	wanted := planned.Configs
	planned.take(topic)
	planned.Configs = wanted
	resp.Diagnostics.Append(resp.State.Set(ctx, &planned)...)
}

// patchOf is what the API must be told: settings that went are null, which is the default again.
func patchOf(before, planned model) api.Patch {
	patch := api.Patch{}
	if !before.Partitions.Equal(planned.Partitions) {
		patch["partitions"] = planned.Partitions.ValueInt64()
	}
	if before.Configs.Equal(planned.Configs) {
		return patch
	}
	was, wanted := settings(before.Configs), settings(planned.Configs)
	changes := map[string]any{}
	for name := range was {
		if _, stays := wanted[name]; !stays {
			changes[name] = nil
		}
	}
	for name, value := range wanted {
		if old, had := was[name]; !had || old != value {
			changes[name] = value
		}
	}
	if len(changes) > 0 {
		patch["configs"] = changes
	}
	return patch
}

func (r *topicResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var known model
	resp.Diagnostics.Append(req.State.Get(ctx, &known)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if known.DeletionProtection.ValueBool() {
		// A replacement that is asked for (-replace) plans no deletion: this is the last place to refuse it.
		guardDestroy(known, &resp.Diagnostics)
		return
	}
	clusterID, name := known.ClusterID.ValueString(), known.Name.ValueString()
	defer r.Session.Topics.Forget(clusterID)
	err := cluster.Remove(ctx, r.Session.Client, clusterID, func(ctx context.Context) error {
		return api.Done(r.Session.TopicDelete(ctx, clusterID, name))
	})
	if err != nil {
		resp.Diagnostics.AddError("Deleting topic "+known.ID.ValueString()+" failed", err.Error())
	}
}

// write runs a call that changes topics. Where the cluster is being worked on, it waits for that first.
func (r *topicResource) write(ctx context.Context, clusterID string, call func(context.Context) (*api.Topic, error)) (*api.Topic, error) {
	defer r.Session.Topics.Forget(clusterID)
	return cluster.Write(ctx, r.Session.Client, clusterID, call)
}

// ImportState takes `clu_…/<topic>` and `<environment>/<cluster>/<topic>` with names or ids.
func (r *topicResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	clusterID, name, ok := cluster.SplitImport(ctx, r.Session.Client, req.ID, "topic", &resp.Diagnostics)
	if !ok {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), topicID(clusterID, name))...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("cluster_id"), clusterID)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), name)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("configs"), types.MapNull(configType{}))...)
}
