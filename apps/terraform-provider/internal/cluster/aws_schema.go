package cluster

import (
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

const (
	zonesMax       = 3
	cidrsMax       = 20
	principalsMax  = 20
	walSizeGibMin  = 1
	walIopsMin     = 100
	walMibpsMin    = 125
	accessPrivate  = "private"
	accessEndpoint = "endpoint_service"
)

var (
	cidrPattern = regexp.MustCompile(`^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$`)

	walType = map[string]attr.Type{
		"type": types.StringType, "size_gib": types.Int64Type,
		"iops": types.Int64Type, "throughput_mibps": types.Int64Type,
	}
	networkType = map[string]attr.Type{
		"vpc_id": types.StringType, "subnet_ids": types.ListType{ElemType: types.StringType},
		"cidr": types.StringType, "access": types.StringType,
		"allowed_principals": types.ListType{ElemType: types.StringType},
		"allowed_cidrs":      types.ListType{ElemType: types.StringType},
	}
	storageType = map[string]attr.Type{"kms_key_arn": types.StringType}
)

// awsArguments are the arguments for clusters on AWS only.
func awsArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"zones": schema.Int64Attribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Availability zones of subnets and load balancer; by default all of the region.",
			Validators:          []validator.Int64{int64validator.Between(1, zonesMax)},
			PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown(), int64planmodifier.RequiresReplace()},
		},
		"wal":     walSchema(),
		"network": networkSchema(),
		"storage": storageSchema(),
	}
}

func walSchema() schema.Attribute {
	kept := []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}
	return schema.SingleNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "AWS only: the EBS volume of the write-ahead log, one per broker slot. It changes in place. It can grow; fewer GiB fail the plan. The default depends on the cluster's size.",
		PlanModifiers:       []planmodifier.Object{objectplanmodifier.UseStateForUnknown()},
		Attributes: map[string]schema.Attribute{
			"type": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "`gp3` or `io2`.",
				Validators:    []validator.String{stringvalidator.OneOf("gp3", "io2")},
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"size_gib": schema.Int64Attribute{
				Optional: true, Computed: true, MarkdownDescription: "Size in GiB.", PlanModifiers: kept,
				Validators: []validator.Int64{int64validator.AtLeast(walSizeGibMin)},
			},
			"iops": schema.Int64Attribute{
				Optional: true, Computed: true, MarkdownDescription: "Provisioned operations per second.", PlanModifiers: kept,
				Validators: []validator.Int64{int64validator.AtLeast(walIopsMin)},
			},
			"throughput_mibps": schema.Int64Attribute{
				Optional: true, Computed: true, PlanModifiers: kept,
				MarkdownDescription: "Provisioned throughput in MiB/s; `gp3` only; `io2` derives it.",
				Validators:          []validator.Int64{int64validator.AtLeast(walMibpsMin)},
			},
		},
	}
}

func networkSchema() schema.Attribute {
	fixed := []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplace()}
	texts := func(description string, most int, modifiers ...planmodifier.List) schema.Attribute {
		return schema.ListAttribute{
			Optional: true, Computed: true, ElementType: types.StringType, MarkdownDescription: description,
			Validators:    []validator.List{listvalidator.SizeAtMost(most)},
			PlanModifiers: append([]planmodifier.List{listplanmodifier.UseStateForUnknown()}, modifiers...),
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "AWS only: the cluster's network and access.",
		PlanModifiers:       []planmodifier.Object{objectplanmodifier.UseStateForUnknown()},
		Attributes: map[string]schema.Attribute{
			"vpc_id": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: fixed,
				MarkdownDescription: "An existing VPC; by default the cluster gets its own. The VPC and its subnets must have the tag `millrace:tenant` with your organization's id. Changing it replaces the cluster.",
			},
			"subnet_ids": texts("With `vpc_id`: one private subnet in each zone, in the order of the zones. Changing it replaces the cluster.", zonesMax, listplanmodifier.RequiresReplace()),
			"cidr": schema.StringAttribute{
				Optional: true, Computed: true, PlanModifiers: fixed,
				MarkdownDescription: "Addresses of the cluster's own VPC, for example `10.40.0.0/16`. Changing it replaces the cluster.",
				Validators:          []validator.String{stringvalidator.RegexMatches(cidrPattern, "an IPv4 range like 10.40.0.0/16")},
			},
			"access": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "`private` (the VPC and networks peered with it) or `endpoint_service` (also other accounts through AWS PrivateLink).",
				Validators:          []validator.String{stringvalidator.OneOf(accessPrivate, accessEndpoint)},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"allowed_principals": texts("With `endpoint_service`: ARNs that may connect, for example `arn:aws:iam::111122223333:root`.", principalsMax),
			"allowed_cidrs":      texts("Address ranges whose clients may connect; the VPC's by default.", cidrsMax),
		},
	}
}

func storageSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "AWS only: encryption of the data.",
		PlanModifiers:       []planmodifier.Object{objectplanmodifier.UseStateForUnknown()},
		Attributes: map[string]schema.Attribute{
			"kms_key_arn": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Your KMS key for bucket and volumes; by default the cluster gets its own. Changing it replaces the cluster.",
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplace()},
			},
		},
	}
}
