package cluster

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millrace/terraform-provider-millrace/internal/api"
	"github.com/millrace/terraform-provider-millrace/internal/session"
)

type caCertificateModel struct {
	ClusterID types.String `tfsdk:"cluster_id"`
	Pem       types.String `tfsdk:"pem"`
}

// NewCaCertificateDataSource makes the data source `millrace_ca_certificate`.
func NewCaCertificateDataSource() datasource.DataSource {
	return &session.DataSource[caCertificateModel]{
		Name: "ca_certificate",
		Fields: schema.Schema{
			MarkdownDescription: "The root certificate that clients of a cluster's `SASL_SSL` endpoint must trust.",
			Attributes: map[string]schema.Attribute{
				"cluster_id": schema.StringAttribute{Required: true, MarkdownDescription: "The cluster (`clu_…`). One on AWS has no such endpoint."},
				"pem":        schema.StringAttribute{Computed: true, MarkdownDescription: "The certificate in PEM: a client's `ssl.truststore.certificates` or `ssl.ca.location`."},
			},
		},
		Fetch: func(ctx context.Context, session *session.Session, asked *caCertificateModel) error {
			response, err := session.ClusterCaCertificate(ctx, asked.ClusterID.ValueString())
			text, err := api.ReadText("application/x-pem-file", response, err)
			asked.Pem = types.StringValue(text)
			return err
		},
	}
}
