// Package provider joins the resources and data sources, and reads the provider block.
package provider

import (
	"context"
	"os"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/acl"
	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/apikey"
	"github.com/millrace/terraform-provider-millrace/internal/catalog"
	"github.com/millrace/terraform-provider-millrace/internal/cluster"
	"github.com/millrace/terraform-provider-millrace/internal/environment"
	"github.com/millrace/terraform-provider-millrace/internal/operation"
	"github.com/millrace/terraform-provider-millrace/internal/quota"
	"github.com/millrace/terraform-provider-millrace/internal/session"
	"github.com/millrace/terraform-provider-millrace/internal/topic"
	"github.com/millrace/terraform-provider-millrace/internal/tuning"
	"github.com/millrace/terraform-provider-millrace/internal/user"
)

const (
	// Address is where registries and configurations know the provider.
	Address = "registry.terraform.io/millrace/millrace"

	// EndpointVariable names the API where the configuration does not.
	EndpointVariable = "MILLRACE_ENDPOINT"
	// APIKeyVariable holds the key where the configuration does not.
	APIKeyVariable = "MILLRACE_API_KEY"

	retriesDefault           = 8
	retriesMax               = 20
	requestsPerSecondDefault = 20
	requestsPerSecondMax     = 1000
)

var _ provider.ProviderWithEphemeralResources = &millraceProvider{}

type millraceProvider struct {
	version string
}

type model struct {
	Endpoint          types.String `tfsdk:"endpoint"`
	APIKey            types.String `tfsdk:"api_key"`
	MaxRetries        types.Int64  `tfsdk:"max_retries"`
	RequestsPerSecond types.Int64  `tfsdk:"requests_per_second"`
}

// New makes providers of a version.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &millraceProvider{version: version} }
}

func (p *millraceProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "millrace"
	resp.Version = p.version
}

func (p *millraceProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages Millrace: Kafka clusters, their topics, users, ACLs, quotas and tuning, environments and API keys.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "URL of the API, for example `https://api.example.com`. Defaults to the environment variable `MILLRACE_ENDPOINT`. HTTPS is required unless the API is on this machine.",
			},
			"api_key": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "An API key (`mrk_…`) of the organization. Defaults to the environment variable `MILLRACE_API_KEY`, which keeps it out of the configuration.",
			},
			"max_retries": schema.Int64Attribute{
				Optional:            true,
				Validators:          []validator.Int64{int64validator.Between(0, retriesMax)},
				MarkdownDescription: "Maximum retries of a request after 429, 502, 503, 504 or a lost connection; `8` by default. `Retry-After` is honoured; other waits use exponential backoff with jitter.",
			},
			"requests_per_second": schema.Int64Attribute{
				Optional:            true,
				Validators:          []validator.Int64{int64validator.Between(1, requestsPerSecondMax)},
				MarkdownDescription: "Maximum requests per second, over all resources; `20` by default.",
			},
		},
	}
}

func (p *millraceProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if config.Endpoint.IsUnknown() || config.APIKey.IsUnknown() {
		resp.Diagnostics.AddError("The provider block depends on unknown values",
			"endpoint and api_key must be known at plan time. Create the resources they depend on in a separate configuration, or set "+EndpointVariable+" and "+APIKeyVariable+".")
		return
	}
	endpoint := given(config.Endpoint, EndpointVariable)
	key := given(config.APIKey, APIKeyVariable)
	if endpoint == "" {
		resp.Diagnostics.AddAttributeError(path.Root("endpoint"), "The API's endpoint is missing",
			"Set endpoint in the provider block, or the environment variable "+EndpointVariable+".")
	}
	if key == "" {
		resp.Diagnostics.AddAttributeError(path.Root("api_key"), "The API key is missing",
			"Set the environment variable "+APIKeyVariable+", or api_key in the provider block. Create keys in the console under “API keys”.")
	}
	if resp.Diagnostics.HasError() {
		return
	}
	client, err := api.Connect(api.Settings{
		Endpoint:          endpoint,
		APIKey:            key,
		UserAgent:         "terraform-provider-millrace/" + p.version + " terraform/" + req.TerraformVersion,
		MaxRetries:        int(number(config.MaxRetries, retriesDefault)),
		RequestsPerSecond: int(number(config.RequestsPerSecond, requestsPerSecondDefault)),
	})
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("endpoint"), "The provider cannot be configured", err.Error())
		return
	}
	shared := session.New(client)
	resp.ResourceData = shared
	resp.DataSourceData = shared
	resp.EphemeralResourceData = shared
}

func (p *millraceProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		acl.NewResource,
		apikey.NewResource,
		cluster.NewResource,
		environment.NewResource,
		quota.NewResource,
		topic.NewResource,
		tuning.NewResource,
		user.NewResource,
	}
}

func (p *millraceProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		apikey.NewListDataSource,
		catalog.NewRegions,
		catalog.NewSizes,
		catalog.NewVersions,
		cluster.NewCaCertificateDataSource,
		cluster.NewDataSource,
		cluster.NewListDataSource,
		environment.NewDataSource,
		environment.NewListDataSource,
		operation.NewDataSource,
		operation.NewListDataSource,
		topic.NewDataSource,
		topic.NewListDataSource,
	}
}

func (p *millraceProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{apikey.NewEphemeralResource}
}

// given is the configured value, else the variable's.
func given(value types.String, variable string) string {
	if !value.IsNull() {
		return value.ValueString()
	}
	return os.Getenv(variable)
}

func number(value types.Int64, usual int64) int64 {
	if value.IsNull() || value.IsUnknown() {
		return usual
	}
	return value.ValueInt64()
}
