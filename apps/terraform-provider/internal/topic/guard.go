package topic

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// guardDestroy makes a plan fail that deletes a protected topic: at plan, before anything is done.
func guardDestroy(before model, diags *diag.Diagnostics) {
	if before.DeletionProtection.ValueBool() {
		diags.AddAttributeError(path.Root("deletion_protection"), "The topic is protected from deletion",
			fmt.Sprintf("Deleting topic %s would delete its records. Set deletion_protection = false and apply that first.", before.ID.ValueString()))
	}
}

// guardReplacement lets no topic be replaced silently.
func guardReplacement(before, planned model, diags *diag.Diagnostics) {
	text := fmt.Sprintf("Topic %s would be deleted with its records, and %s made empty: Kafka can neither rename nor move topics.",
		before.ID.ValueString(), madeInstead(planned))
	if before.DeletionProtection.ValueBool() {
		diags.AddAttributeError(path.Root("name"), "The plan would replace a protected topic",
			text+" Keep name and cluster_id, or set deletion_protection = false and apply that first.")
		return
	}
	diags.AddAttributeWarning(path.Root("name"), "The plan replaces a topic", text)
}

// madeInstead names the topic that is planned, as far as it is known.
func madeInstead(planned model) string {
	if planned.Name.IsUnknown() {
		return "another one"
	}
	if planned.ClusterID.IsUnknown() {
		return "a topic " + planned.Name.ValueString() + " of a cluster that is not known yet (it is replaced, or read during the apply)"
	}
	return topicID(planned.ClusterID.ValueString(), planned.Name.ValueString())
}

func guardPartitions(before, planned model, diags *diag.Diagnostics) {
	if planned.Partitions.IsUnknown() || before.Partitions.IsNull() {
		return
	}
	if planned.Partitions.ValueInt64() < before.Partitions.ValueInt64() {
		diags.AddAttributeError(path.Root("partitions"), "Partitions cannot be reduced",
			fmt.Sprintf("Topic %s has %d partitions, the configuration says %d. Kafka cannot shrink a topic: set at least %d, or create a new topic and move its readers.",
				before.ID.ValueString(), before.Partitions.ValueInt64(), planned.Partitions.ValueInt64(), before.Partitions.ValueInt64()))
	}
}
